"""Tests for filters that require traits for what a flavor or an image says."""

from dataclasses import replace

import pytest

from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.request import Request
from berth.domain.errors import InvalidInputError
from berth.scheduling.filters import is_not_disabled
from berth.scheduling.filters.demanded_traits import (
    asked_by_both,
    build_ephemeral_encryption,
    build_image_metadata,
    build_image_type_support,
    build_packed_virtqueue,
    build_virtio_sound,
    image_properties,
    is_asked_by_either,
    property_text,
    trait_filter,
    trait_of,
)
from berth.scheduling.rules.rule import Query
from berth.testing.fleets import NOW_S, Box, asking, snapshot_of
from tests.unit.scheduling.conftest import Ask

RULE = trait_filter(
    "DemoFilter",
    lambda query: {f"CUSTOM_{key.upper()}": key for key in query.request.hints},
    request=("hints",),
)
SNAPSHOT = snapshot_of(
    [
        Box("both", traits=frozenset({"CUSTOM_A", "CUSTOM_B"})),
        Box("one", traits=frozenset({"CUSTOM_A"})),
        Box("none"),
    ]
)


def query_of(specs: dict[str, str], properties: dict[str, str] | None) -> Query:
    """Return the query of a flavor with extra specs and an optional image."""
    image = None if properties is None else Image("i", properties=properties)
    request = replace(asking(Flavor("1", "f", 1, 1, extra_specs=specs)), image=image)
    return Query(request, request.needs, NOW_S, None, "new-0")


def test_hosts_need_every_trait(ask: Ask) -> None:
    """Hosts need every demanded trait; the filter does not apply without demands."""
    assert ask(SNAPSHOT, asking()).kept(RULE) is None
    assert ask(SNAPSHOT, replace(asking(), hints={"a": ()})).kept(RULE) == ["both", "one"]
    assert ask(SNAPSHOT, replace(asking(), hints={"a": (), "b": ()})).kept(RULE) == ["both"]
    assert ask(SNAPSHOT, replace(asking(), hints={"nobody_has": ()})).kept(RULE) == []


def test_reasons_name_the_trait_and_what_demands_it(ask: Ask) -> None:
    """The reason names each trait and its cause; one missing trait gives a relaxation."""
    asked = ask(SNAPSHOT, replace(asking(), hints={"a": (), "b": ()}))
    assert asked.why(RULE, 1) == "it lacks CUSTOM_B, which b demands"
    assert asked.why(RULE, 2) == (
        "it lacks CUSTOM_A, which a demands; it lacks CUSTOM_B, which b demands"
    )
    assert asked.relaxed(RULE, [1, 2]) == [("without b: 1 host", ("one",))]


def test_traits_are_named_as_in_os_traits() -> None:
    """Trait names are in upper case with underscores, and quoted values are shortened."""
    assert trait_of("COMPUTE_NET_VIF_MODEL", "ne2k-pci") == "COMPUTE_NET_VIF_MODEL_NE2K_PCI"
    assert property_text("key", "v" * 200) == "key=" + "v" * 80
    assert image_properties(query_of({}, None)) == {}


@pytest.mark.parametrize(
    ("spec", "image", "asked"),
    [
        (None, None, ("", "")),
        ("a", None, ("a", "hw:x=a")),
        (None, "b", ("b", "hw_x=b")),
        ("a", "a", ("a", "hw:x=a and hw_x=a")),
        ("", "b", ("b", "hw_x=b")),
    ],
)
def test_flavor_and_image_may_both_ask(
    spec: str | None, image: str | None, asked: tuple[str, str]
) -> None:
    """A setting may come from the flavor, the image or both."""
    specs = {} if spec is None else {"hw:x": spec}
    properties = None if image is None else {"hw_x": image}
    assert asked_by_both(query_of(specs, properties), "x") == asked


def test_what_they_do_not_agree_on_is_refused() -> None:
    """Different settings of flavor and image are refused, as in Nova's API."""
    query = query_of({"hw:x": "a", "hw:y": "yes"}, {"hw_x": "b", "hw_y": "no"})
    for ask_both in (lambda: asked_by_both(query, "x"), lambda: is_asked_by_either(query, "y")):
        with pytest.raises(InvalidInputError, match="make them equal"):
            ask_both()


@pytest.mark.parametrize(
    ("spec", "image", "asked"),
    [
        (None, None, (False, "")),
        ("true", None, (True, "hw:x=true")),
        ("0", None, (False, "hw:x=0")),
        (None, " Yes", (True, "hw_x= Yes")),
        ("on", "1", (True, "hw:x=on and hw_x=1")),
        ("off", "nonsense", (False, "hw:x=off and hw_x=nonsense")),
    ],
)
def test_words_for_yes_are_those_of_nova(
    spec: str | None, image: str | None, asked: tuple[bool, str]
) -> None:
    """Nova's words for yes count as true and all others as false."""
    specs = {} if spec is None else {"hw:x": spec}
    properties = None if image is None else {"hw_x": image}
    assert is_asked_by_either(query_of(specs, properties), "x") == asked


def imaged(properties: dict[str, str], specs: dict[str, str] | None = None) -> Request:
    """Return a request with image properties and extra specs."""
    flavor = Flavor("1", "f", 1, 1, extra_specs=specs or {})
    return replace(asking(flavor), image=Image("i", properties=properties))


def fleet(*traits: str) -> list[Box]:
    """Return a host for each trait, named after it, and one without traits."""
    return [*(Box(name, traits=frozenset({name})) for name in traits), Box("none")]


QCOW2 = "COMPUTE_IMAGE_TYPE_QCOW2"
RAW = "COMPUTE_IMAGE_TYPE_RAW"


@pytest.mark.parametrize(
    ("properties", "kept"),
    [
        ({"disk_format": "qcow2"}, [QCOW2]),
        ({"disk_format": "RAW"}, [RAW]),
        ({"disk_format": "docker"}, []),
        ({"disk_format": ""}, None),
        ({}, None),
    ],
)
def test_image_type_support(ask: Ask, properties: dict[str, str], kept: list[str] | None) -> None:
    """ImageTypeSupportFilter requires the trait of the disk format unless it is switched off."""
    snapshot = snapshot_of(fleet(QCOW2, RAW))
    assert ask(snapshot, imaged(properties)).kept(build_image_type_support()) == kept
    off = build_image_type_support(query_placement_for_image_type_support=False)
    assert ask(snapshot, imaged(properties)).kept(off) is None


def test_a_request_without_image_has_no_disk_format(ask: Ask) -> None:
    """A request without an image demands no disk format."""
    assert ask(snapshot_of(fleet(RAW)), asking()).kept(build_image_type_support()) is None


@pytest.mark.parametrize(
    ("key", "value", "trait"),
    [
        ("hw_disk_bus", "virtio", "COMPUTE_STORAGE_BUS_VIRTIO"),
        ("hw_cdrom_bus", "sata", "COMPUTE_STORAGE_BUS_SATA"),
        ("hw_video_model", "vga", "COMPUTE_GRAPHICS_MODEL_VGA"),
        ("hw_vif_model", "ne2k-pci", "COMPUTE_NET_VIF_MODEL_NE2K_PCI"),
        ("hw_vif_model", "VirtualE1000", "COMPUTE_NET_VIF_MODEL_E1000"),
        ("hw_architecture", "amd64", "HW_ARCH_X86_64"),
        ("hw_emulation_architecture", "aarch64", "COMPUTE_ARCH_AARCH64"),
        ("hw_viommu_model", "intel", "COMPUTE_VIOMMU_MODEL_INTEL"),
    ],
)
def test_image_metadata(ask: Ask, key: str, value: str, trait: str) -> None:
    """ImageMetadataFilter requires the traits of devices and architectures."""
    snapshot = snapshot_of(fleet(trait))
    asked = ask(snapshot, imaged({key: value, "os_type": "linux"}))
    rule = build_image_metadata()
    assert asked.kept(rule) == [trait]
    assert asked.why(rule, 1) == f"it lacks {trait}, which {key}={value} demands"
    assert asked.kept(build_image_metadata(image_metadata_prefilter=False)) is None


def test_two_properties_may_demand_one_trait(ask: Ask) -> None:
    """A trait demanded by two properties needs both dropped."""
    properties = {"hw_disk_bus": "scsi", "hw_cdrom_bus": "scsi", "hw_video_model": ""}
    asked = ask(snapshot_of(fleet()), imaged(properties))
    assert asked.relaxed(build_image_metadata(), [0]) == [
        ("without hw_disk_bus=scsi and hw_cdrom_bus=scsi: 1 host", ("none",))
    ]
    assert ask(snapshot_of(fleet()), imaged({})).kept(build_image_metadata()) is None


@pytest.mark.parametrize(
    ("specs", "properties", "asked"),
    [
        ({"hw:virtio_packed_ring": "true"}, {}, True),
        ({}, {"hw_virtio_packed_ring": "1"}, True),
        ({"hw:virtio_packed_ring": "false"}, {}, False),
        ({}, {}, False),
    ],
)
def test_packed_virtqueue(
    ask: Ask, specs: dict[str, str], properties: dict[str, str], asked: bool
) -> None:
    """PackedVirtqueueFilter applies when the flavor or the image sets the property."""
    trait = "COMPUTE_NET_VIRTIO_PACKED"
    found = ask(snapshot_of(fleet(trait)), imaged(properties, specs))
    assert found.kept(build_packed_virtqueue()) == ([trait] if asked else None)


ENCRYPTS = "COMPUTE_EPHEMERAL_ENCRYPTION"
LUKS = Box("luks", traits=frozenset({ENCRYPTS, f"{ENCRYPTS}_LUKS"}))


@pytest.mark.parametrize(
    ("specs", "properties", "kept"),
    [
        ({"hw:ephemeral_encryption": "true"}, {}, [ENCRYPTS, "luks"]),
        (
            {"hw:ephemeral_encryption": "true", "hw:ephemeral_encryption_format": "luks"},
            {},
            ["luks"],
        ),
        (
            {"hw:ephemeral_encryption": "true"},
            {"hw_ephemeral_encryption_format": "plain"},
            [],
        ),
        ({}, {"hw_ephemeral_encryption": "yes"}, [ENCRYPTS, "luks"]),
        ({}, {"hw_ephemeral_encryption_format": "luks"}, None),
        ({"hw:ephemeral_encryption": "no"}, {}, None),
    ],
)
def test_ephemeral_encryption(
    ask: Ask, specs: dict[str, str], properties: dict[str, str], kept: list[str] | None
) -> None:
    """EphemeralEncryptionFilter requires encryption, and its format if one is named."""
    snapshot = snapshot_of([*fleet(ENCRYPTS), LUKS])
    assert ask(snapshot, imaged(properties, specs)).kept(build_ephemeral_encryption()) == kept


def test_an_unknown_format_is_refused(ask: Ask) -> None:
    """An unknown encryption format is refused with the known ones."""
    specs = {"hw:ephemeral_encryption": "true", "hw:ephemeral_encryption_format": "rot13"}
    reason = "'rot13' must be one of plain, luks, luksv2"
    with pytest.raises(InvalidInputError, match=f"^hw:ephemeral_encryption_format: {reason}"):
        ask(snapshot_of([LUKS]), imaged({}, specs)).kept(build_ephemeral_encryption())
    properties = {key.replace(":", "_"): value for key, value in specs.items()}
    with pytest.raises(InvalidInputError, match=f"^hw_ephemeral_encryption_format: {reason}"):
        ask(snapshot_of([LUKS]), imaged(properties, {})).kept(build_ephemeral_encryption())


@pytest.mark.parametrize(
    ("specs", "properties", "asked"),
    [
        ({"hw:sound_model": "virtio"}, {}, True),
        ({}, {"hw_sound_model": "virtio"}, True),
        ({"hw:sound_model": "ich9"}, {}, False),
        ({}, {}, False),
    ],
)
def test_virtio_sound(
    ask: Ask, specs: dict[str, str], properties: dict[str, str], asked: bool
) -> None:
    """VirtioSoundFilter applies to the model virtio only."""
    trait = "COMPUTE_SOUND_MODEL_VIRTIO"
    found = ask(snapshot_of(fleet(trait)), imaged(properties, specs))
    assert found.kept(build_virtio_sound()) == ([trait] if asked else None)


def test_compute_status(ask: Ask) -> None:
    """ComputeStatusFilter removes hosts with the trait COMPUTE_STATUS_DISABLED."""
    rule = is_not_disabled.build()
    asked = ask(snapshot_of(fleet("COMPUTE_STATUS_DISABLED")), asking())
    assert asked.kept(rule) == ["none"]
    assert asked.why(rule, 0) == "it has the trait COMPUTE_STATUS_DISABLED"
    assert asked.relaxed(rule, [0]) == [
        (
            "without the trait COMPUTE_STATUS_DISABLED on hosts: 1 host",
            ("COMPUTE_STATUS_DISABLED",),
        )
    ]
