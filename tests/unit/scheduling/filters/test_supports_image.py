"""Tests for ImagePropertiesFilter."""

from dataclasses import replace

import pytest

from berth.domain.compute.flavor import Image
from berth.domain.compute.request import Request
from berth.scheduling.filters import supports_image
from berth.scheduling.filters.supports_image import version_text
from berth.testing.fleets import Box, asking, snapshot_of
from tests.unit.scheduling.conftest import Ask

RULE = supports_image.build()
SNAPSHOT = snapshot_of(
    [
        Box("kvm", supported_instances=(("x86_64", "kvm", "hvm"), ("i686", "kvm", "hvm"))),
        Box("arm", supported_instances=(("aarch64", "qemu", "hvm"),), hypervisor_version=0),
        Box("xen", supported_instances=(("x86_64", "xen", "xen"),), hypervisor_version=4_000_001),
        Box("mute", supported_instances=()),
    ]
)


def imaged(**properties: str) -> Request:
    """Return a request for an image."""
    return replace(asking(), image=Image("i", properties=properties))


@pytest.mark.parametrize(
    ("properties", "kept"),
    [
        ({}, None),
        ({"os_type": "linux"}, None),
        ({"img_hv_requested_version": ">=99"}, None),
        ({"hw_architecture": "x86_64"}, ["kvm", "xen"]),
        ({"hw_architecture": "amd64"}, ["kvm", "xen"]),
        ({"hw_architecture": "AMD64"}, ["kvm", "xen"]),
        ({"architecture": "arm64"}, ["arm"]),
        ({"img_hv_type": "xapi"}, ["xen"]),
        ({"hw_vm_mode": "pv"}, ["xen"]),
        ({"hw_vm_mode": "hv"}, ["kvm", "arm"]),
        ({"hw_architecture": "i686", "hw_vm_mode": "hvm"}, ["kvm"]),
        ({"hw_architecture": "i686", "img_hv_type": "xen"}, []),
        ({"hw_architecture": "s390x"}, []),
    ],
)
def test_one_entry_of_the_host_has_to_hold_all(
    ask: Ask, properties: dict[str, str], kept: list[str] | None
) -> None:
    """One advertised entry of the host must match all properties, under their canonical names."""
    assert ask(SNAPSHOT, imaged(**properties)).kept(RULE) == kept


@pytest.mark.parametrize(
    ("bits", "kept"), [("39", ["kvm", "mute"]), ("46", ["kvm", "mute"]), ("47", ["mute"])]
)
def test_bits_of_physical_addresses_have_to_do(ask: Ask, bits: str, kept: list[str]) -> None:
    """A host must have enough physical address bits, if it reports them."""
    told = {"maxphysaddr": {"mode": "emulate", "bits": 46}}
    snapshot = snapshot_of([Box("kvm", cpu_info=told), Box("mute")])
    asked = imaged(hw_maxphysaddr_bits=bits, hw_architecture="x86_64")
    assert ask(snapshot, asked).kept(RULE) == kept
    assert ask(snapshot, imaged(hw_maxphysaddr_bits=bits)).kept(RULE) is None
    assert "address bits" in ask(snapshot, asked).why(RULE, 0)


def test_the_version_has_an_older_name_too(ask: Ask) -> None:
    """The former property `hypervisor_version_requires` is read as well."""
    asked = imaged(hypervisor_version_requires=">=6", hw_vm_mode="xen")
    assert ask(SNAPSHOT, asked).kept(RULE) == []
    asked = imaged(hypervisor_version_requires=">=4", hw_vm_mode="xen")
    assert ask(SNAPSHOT, asked).kept(RULE) == ["xen"]


def test_a_request_without_image_passes(ask: Ask) -> None:
    """The filter applies without an image only if a default architecture is set."""
    assert ask(SNAPSHOT, asking()).kept(RULE) is None
    rule = supports_image.build(image_properties_default_architecture="aarch64")
    assert ask(SNAPSHOT, asking()).kept(rule) == ["arm"]
    assert ask(SNAPSHOT, imaged(hw_architecture="i686")).kept(rule) == ["kvm"]


@pytest.mark.parametrize(
    ("predicate", "kept"),
    [
        ("", ["kvm", "arm", "xen"]),
        (">=6.0,<7", ["kvm", "arm"]),
        ("(>=4.0.1, < 4.1)", ["arm", "xen"]),
        ("==6.2", ["kvm", "arm"]),
        ("!=6.2.0", ["arm", "xen"]),
        ("<=4.0.1", ["arm", "xen"]),
        (">6.2", ["arm"]),
        ("6.2", ["arm"]),
        (">=x", ["arm"]),
        (">=6,", ["arm"]),
        (">=" + "9" * 5000, ["arm"]),
        ("<" + "9." * 5000 + "9", ["arm"]),
    ],
)
def test_the_version_has_to_satisfy_the_predicate(
    ask: Ask, predicate: str, kept: list[str]
) -> None:
    """A reported version must satisfy the predicate, and an unreadable one fails it."""
    snapshot = replace(SNAPSHOT, hosts=SNAPSHOT.hosts[:3])
    found: list[str] = []
    for mode in ("hvm", "xen"):
        request = imaged(img_hv_requested_version=predicate, hw_vm_mode=mode)
        found += ask(snapshot, request).kept(RULE) or []
    assert found == kept


@pytest.mark.parametrize(
    ("version", "text"),
    [(6_002_001, "6.2.1"), (6_000_000, "6.0.0"), (7, "7"), (0, "0"), (-1, "0"), (-(10**9), "0")],
)
def test_versions_have_three_digits_a_part(version: int, text: str) -> None:
    """A version number has three digits for each part; a negative one is shown as 0."""
    assert version_text(version) == text


def test_the_reason_says_what_was_asked_and_what_runs(ask: Ask) -> None:
    """The reason names the image's demands and what the host runs."""
    asked = ask(SNAPSHOT, imaged(hw_architecture="i686", img_hv_requested_version=">6"))
    assert asked.why(RULE, 2) == (
        "the image asks for i686 >6; the host runs x86_64/xen/xen, version 4.0.1"
    )
    assert asked.why(RULE, 3).endswith("the host runs nothing, version 6.2.0")
    assert asked.relaxed(RULE, [3, 2]) == [
        ("without the image's architecture and mode: 2 hosts", ("mute", "xen"))
    ]


def test_it_runs_on_rebuild() -> None:
    """The filter runs on rebuilds."""
    assert RULE.run_on_rebuild
