"""Tests for linting flavors: contradictions and extra specs that nothing reads."""

from collections.abc import Mapping

import pytest

from berth.domain.compute.flavor import Flavor
from berth.scheduling.lint.flavor_lint import lint_flavor
from berth.scheduling.lint.lint_warning import LintWarning
from berth.testing.fleets import asking

CAPABILITIES = "ComputeCapabilitiesFilter"
AGGREGATES = "AggregateInstanceExtraSpecsFilter"


def lint(specs: Mapping[str, str], *filters: str) -> list[str]:
    """Return the warnings about a flavor with these extra specs under these filters."""
    flavor = Flavor("1", "f", 2, 512, extra_specs=specs)
    found = list(lint_flavor(flavor, asking(flavor).needs, frozenset(filters)))
    assert {one.where for one in found} <= {"flavor f"}
    return [one.text for one in found]


@pytest.mark.parametrize(
    ("specs", "filters"),
    [
        ({}, []),
        ({"trait:X": "required"}, ["TraitsFilter"]),
        ({"capabilities:vcpus_total": ">= 4", "vcpus_total": "<= 4"}, [CAPABILITIES]),
        ({"capabilities:rack": "<or> a <or> b", "rack": "<in> b"}, [CAPABILITIES]),
        ({"capabilities:stats:n": "4", "capabilities:n": "== 4.0"}, [CAPABILITIES]),
        ({"capabilities:a": "x", "capabilities:b": "y", "other:a": "z"}, [CAPABILITIES]),
        (
            {"aggregate_instance_extra_specs:ssd": "a", "aggregate_instance_extra_specs:x": "b"},
            [AGGREGATES],
        ),
        ({"ssd": "true"}, [AGGREGATES]),
        ({"hw:maxphysaddr_bits": "46"}, [CAPABILITIES]),
        ({"hw:cpu_policy": "dedicated"}, ["NUMATopologyFilter"]),
        ({"berth:any_trait": "A|B", "trait:A": "forbidden"}, ["TraitsFilter"]),
    ],
)
def test_a_sound_flavor_has_no_findings(specs: Mapping[str, str], filters: list[str]) -> None:
    """A flavor whose specs are read and do not contradict each other has no warnings."""
    assert lint(specs, *filters) == []


@pytest.mark.parametrize(
    ("specs", "text"),
    [
        (
            {"capabilities:vcpus_total": ">= 8", "vcpus_total": "<= 4"},
            "capabilities:vcpus_total = '>= 8' and vcpus_total = '<= 4' contradict each other",
        ),
        (
            {"capabilities:stats:rack": "s== a", "capabilities:rack": "<or> b <or> c"},
            "capabilities:stats:rack = 's== a' and capabilities:rack = '<or> b <or> c'",
        ),
        ({"capabilities:n": "== 3", "n": ">= 4"}, "capabilities:n = '== 3' and n = '>= 4'"),
        ({"capabilities:n": "qemu", "n": "== 4"}, "capabilities:n = 'qemu' and n = '== 4'"),
        (
            {"capabilities:n": ">= abc"},
            "capabilities:n = '>= abc' is invalid ('abc' is not a number); correct",
        ),
        ({"capabilities:n": "<in>"}, "capabilities:n = '<in>' is invalid (<in> has no operand)"),
        (
            {"hw:maxphysaddr_bits": "many"},
            "hw:maxphysaddr_bits = 'many' is invalid ('many' is not a number)",
        ),
        (
            {"berth:any_trait": "A|B", "trait:A": "forbidden", "trait:B": "forbidden"},
            "one of the traits A, B is required, and each of them",
        ),
    ],
)
def test_what_can_never_hold_is_told(specs: Mapping[str, str], text: str) -> None:
    """Contradictory or invalid specs are reported with their text."""
    (said,) = lint(specs, CAPABILITIES, "TraitsFilter")
    assert said.startswith(f"can never be placed: {text}")


def test_an_operator_that_there_is_not_is_told() -> None:
    """A requirement that begins with an unknown operator is reported."""
    for requirement in ("> 4", "=4", ">=4", "s=x", "<any> a"):
        (said,) = lint({"capabilities:n": requirement}, CAPABILITIES)
        assert said.startswith(
            f"capabilities:n = {requirement!r} does not begin with a valid operator"
        )


@pytest.mark.parametrize(
    ("specs", "text"),
    [
        (
            {"trait:X": "required"},
            "asks for traits, which only TraitsFilter reads; add TraitsFilter",
        ),
        ({"resources1:VGPU": "1"}, "asks for groups of resources, which only GranularG"),
        ({"hw:numa_nodes": "1"}, "asks for a NUMA topology, which only NUMATopologyFilter"),
        (
            {"pci_passthrough:alias": "gpu:1"},
            "asks for PCI devices, which only PciPassthroughFilter",
        ),
        ({"capabilities:n": "1"}, f"has capabilities:n, which only {CAPABILITIES} reads"),
        (
            {"trust:trusted_host": "trusted"},
            "has trust:trusted_host, which only TrustedFilter reads",
        ),
        ({"hw:sound_model": "virtio"}, "has hw:sound_model, which only VirtioSoundFilter reads"),
        (
            {"hw:tpm_version": "2.0"},
            "has hw:tpm_version, which no rule reads, so any host is accepted",
        ),
        (
            {"os:secure_boot": "required"},
            "has os:secure_boot, which no rule reads, so any host is accepted",
        ),
    ],
)
def test_what_nothing_looks_at_is_told(specs: Mapping[str, str], text: str) -> None:
    """A spec that no filter of the policy reads is reported."""
    (said,) = lint(specs)
    assert said.startswith(text)


def test_specs_without_scope_that_two_filters_look_at_are_told() -> None:
    """A spec without scope that two filters read is reported."""
    (said,) = lint({"rack": "a"}, CAPABILITIES, AGGREGATES)
    assert said.startswith(f"rack has no scope, so {CAPABILITIES} and {AGGREGATES} both read it")
    groups = {"resources1:VGPU": "1", "resources2:VGPU": "1", "group_policy": "none"}
    (said,) = lint(groups, AGGREGATES, "GranularGroupsFilter")
    assert said.startswith(f"{AGGREGATES} also reads group_policy, because it has no scope")


def test_a_finding_names_its_flavor() -> None:
    """A warning names its flavor."""
    flavor = Flavor("1", "odd", 1, 512, extra_specs={"hw:tpm_model": "tpm-crb"})
    (found,) = lint_flavor(flavor, asking(flavor).needs, frozenset())
    assert found == LintWarning("flavor odd", found.text)
