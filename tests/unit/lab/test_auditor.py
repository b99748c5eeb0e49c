"""Tests for what the auditor reports, accepts, and lists as fitting hosts."""

import pytest

from berth.lab.auditor import AuditError, Auditor, Overcommit
from berth.lab.workload import FleetHost

BIG = FleetHost("big", {"VCPU": 8, "MEMORY_MB": 8192}, ("CUSTOM_SSD", "CUSTOM_NEW"), "az1")
SMALL = FleetHost("small", {"VCPU": 2, "MEMORY_MB": 2048}, ("CUSTOM_HDD",), "az2")


@pytest.fixture
def auditor() -> Auditor:
    """Return an auditor of two hosts, one big and one small."""
    return Auditor([BIG, SMALL])


def test_a_full_host_is_not_overcommitted(auditor: Auditor) -> None:
    """A placement may take all that a host has."""
    auditor.placed("i", "small", {"VCPU": 2, "MEMORY_MB": 2048})
    assert auditor.overcommitted() == []
    assert auditor.fits({"VCPU": 1}) == ["big"]


def test_overcommit_is_reported_and_entered(auditor: Auditor) -> None:
    """The report names the excess, and the placement is recorded all the same."""
    auditor.placed("i", "small", {"VCPU": 1})
    with pytest.raises(AuditError, match="takes 2 of VCPU \\(1 free, 2 in total"):
        auditor.placed("j", "small", {"VCPU": 2, "MEMORY_MB": 1})
    assert auditor.overcommitted() == [Overcommit("small", "VCPU", used=3, capacity=2)]
    auditor.released("i")
    assert auditor.overcommitted() == []


def test_a_class_the_host_lacks_has_no_room(auditor: Auditor) -> None:
    """A host has no room for a resource class that it does not list."""
    assert auditor.fits({"CUSTOM_GPU": 1}) == []
    with pytest.raises(AuditError, match="CUSTOM_GPU \\(0 free, 0 in total"):
        auditor.placed("i", "big", {"CUSTOM_GPU": 1})


def test_asking_for_nothing_always_fits(auditor: Auditor) -> None:
    """A zero amount is always accepted, even on an overcommitted host."""
    with pytest.raises(AuditError):
        auditor.placed("i", "small", {"VCPU": 3})
    auditor.placed("j", "small", {"VCPU": 0, "MEMORY_MB": 1})
    assert auditor.fits({"VCPU": 0, "CUSTOM_GPU": 0}) == ["big", "small"]


def test_an_instance_has_one_host(auditor: Auditor) -> None:
    """A second placement of an instance is reported and not recorded until it is released."""
    auditor.placed("i", "big", {"VCPU": 1})
    with pytest.raises(AuditError, match="placed on 'small' but is already on 'big'"):
        auditor.placed("i", "small", {"VCPU": 1})
    assert auditor.fits({"VCPU": 2}) == ["big", "small"]
    auditor.released("i")
    auditor.placed("i", "small", {"VCPU": 1})


def test_release_needs_a_placement(auditor: Auditor) -> None:
    """Releasing an instance that is not placed is reported."""
    auditor.placed("i", "big", {"VCPU": 1})
    auditor.released("i")
    with pytest.raises(AuditError, match="'i' was released but is not placed"):
        auditor.released("i")


def test_unknown_host_and_negative_amount_are_reported(auditor: Auditor) -> None:
    """An unknown host or a negative amount is reported, and nothing is recorded."""
    with pytest.raises(AuditError, match="unknown host 'moon'"):
        auditor.placed("i", "moon", {"VCPU": 1})
    with pytest.raises(AuditError, match="takes a negative amount of VCPU"):
        auditor.placed("i", "big", {"VCPU": -1})
    auditor.placed("i", "big", {"VCPU": 1})


def test_a_missing_trait_is_reported(auditor: Auditor) -> None:
    """A host that lacks one of the required traits is reported and does not fit."""
    required = ("CUSTOM_SSD", "CUSTOM_HDD")
    with pytest.raises(AuditError, match="lacks trait CUSTOM_HDD"):
        auditor.placed("i", "big", {}, traits_required=required)
    assert auditor.fits({}, traits_required=required) == []
    assert auditor.fits({}, traits_required=("CUSTOM_SSD",)) == ["big"]


def test_one_trait_of_each_set_is_enough(auditor: Auditor) -> None:
    """A host needs one trait of each set of alternatives; no host fits an empty set."""
    either = frozenset({"CUSTOM_SSD", "CUSTOM_HDD"})
    assert auditor.fits({}, any_traits=[either]) == ["big", "small"]
    assert auditor.fits({}, any_traits=[either, frozenset({"CUSTOM_NEW"})]) == ["big"]
    assert auditor.fits({}, any_traits=[frozenset()]) == []
    with pytest.raises(AuditError, match="none of the traits CUSTOM_HDD, CUSTOM_OLD"):
        auditor.placed("i", "big", {}, any_traits=[frozenset({"CUSTOM_OLD", "CUSTOM_HDD"})])


def test_another_availability_zone_is_reported(auditor: Auditor) -> None:
    """A placement outside the requested availability zone is reported."""
    assert auditor.fits({}, availability_zone="az2") == ["small"]
    with pytest.raises(AuditError, match="is in az1, not in az2"):
        auditor.placed("i", "big", {}, availability_zone="az2")


def test_every_broken_rule_is_told_at_once(auditor: Auditor) -> None:
    """One report contains all broken rules."""
    with pytest.raises(AuditError, match=r"VCPU.*; lacks trait CUSTOM_SSD; is in az2"):
        auditor.placed(
            "i", "small", {"VCPU": 3}, traits_required=["CUSTOM_SSD"], availability_zone="az1"
        )


def test_ratio_stretches_one_class_rounded_down() -> None:
    """A ratio of 1.5 turns three vCPUs into four, and the memory stays as it is."""
    host = FleetHost("h", {"VCPU": 3, "MEMORY_MB": 1024})
    auditor = Auditor([host], ratios={"VCPU": 1.5})
    auditor.placed("i", "h", {"VCPU": 3})
    auditor.placed("j", "h", {"VCPU": 1, "MEMORY_MB": 1024})
    assert auditor.fits({"VCPU": 1}) == []
    assert auditor.fits({"MEMORY_MB": 1}) == []


def test_one_instance_never_gets_more_than_the_total() -> None:
    """One instance cannot take more than the host's total, whatever the ratio."""
    auditor = Auditor([FleetHost("h", {"VCPU": 4})], ratios={"VCPU": 16})
    assert auditor.fits({"VCPU": 5}) == []
    with pytest.raises(AuditError, match="takes 5 of VCPU \\(64 free, 4 in total"):
        auditor.placed("i", "h", {"VCPU": 5})
