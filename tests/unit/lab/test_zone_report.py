"""Tests for the report of the zone demo and the faults that it lists."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from berth.domain.compute.decision import ScoredHost
from berth.domain.compute.instance import Instance
from berth.lab.zone_report import check, parts_of, share_of, widest, with_zones
from berth.lab.zone_snapshots import ZoneSnapshot, faults_of
from berth.lab.zone_tenant import RequestOutcome
from berth.testing.builders import make_instance

OUTCOME = RequestOutcome("req-1", "r-1", "small", 3, is_placed=True, took_s=0.1)


def instance(number: int, reservation_id: str = "r-1") -> Instance:
    """Return an instance on a host."""
    return replace(make_instance(number, host="host"), reservation_id=reservation_id)


def book(
    zone: str, *instances: Instance, scores: Sequence[float] = (), wrong: Sequence[str] = ()
) -> ZoneSnapshot:
    """Return a snapshot of a zone; the n-th score belongs to the host of the n-th instance."""
    chosen: Mapping[str, ScoredHost] = {
        one.uuid: ScoredHost(f"{zone}-host", f"{zone}-host", score)
        for one, score in zip(instances, scores, strict=False)
    }
    return ZoneSnapshot(
        zone=zone,
        parent=None,
        level=0,
        hosts=1,
        vcpus=8,
        vcpus_used=len(instances),
        instances={one.uuid: one for one in instances},
        chosen=chosen,
        wrong=wrong,
    )


def listed(*instances: Instance, status: str = "ACTIVE") -> list[dict[str, Any]]:
    """Return the instances in the form in which the root lists servers."""
    return [{"id": one.uuid, "status": status} for one in instances]


def test_books_that_add_up_have_no_faults() -> None:
    """Zones that together have the requested instances have no faults."""
    assert (
        faults_of([book("a", instance(1), instance(2)), book("b", instance(3))], {"r-1": 3}) == []
    )


def test_an_instance_in_two_zones_is_a_fault() -> None:
    """An instance in two zones is a fault, and so is the wrong count of its reservation."""
    faults = faults_of([book("a", instance(1)), book("b", instance(1))], {"r-1": 1})
    assert faults == [
        f"instance {instance(1).uuid} is in a and b",
        "reservation r-1 has 2 instances, but should have 1",
    ]


def test_an_instance_that_is_missing_or_not_wanted_is_a_fault() -> None:
    """Missing instances and instances of a refused request are faults."""
    faults = faults_of([book("a", instance(1), instance(2, "r-2"))], {"r-1": 2})
    assert faults == [
        "reservation r-1 has 1 instances, but should have 2",
        "reservation r-2 has 1 instances, but should have 0",
    ]


def test_what_an_audit_finds_is_a_fault() -> None:
    """A finding of a zone's audit is a fault that names the zone."""
    faults = faults_of([book("a", wrong=["task_stuck: it waits"])], {})
    assert faults == ["the audit of a finds task_stuck: it waits"]


def test_zones_of_a_request_are_those_that_have_some_of_it() -> None:
    """The zones of a request are counted from its own reservation only."""
    books = [book("a", instance(1), instance(2)), book("b", instance(4, "r-2")), book("c")]
    assert with_zones(OUTCOME, books).zones == {"a": 2}


def test_the_widest_request_is_in_the_most_zones_and_the_largest_there() -> None:
    """The widest request is the placed one in the most zones, then with the most instances."""
    wide = replace(OUTCOME, zones={"a": 1, "b": 2})
    wider = replace(wide, count=9)
    refused = replace(wider, count=99, is_placed=False)
    assert widest([OUTCOME, wide, wider, refused]) is wider
    assert widest([refused]) is None


def test_weights_of_a_zone_are_the_best_and_the_least_of_its_own() -> None:
    """The best and worst weights of a zone are None if the zone has no instances."""
    share = share_of(book("a", instance(1), instance(2), scores=(0.25, 0.75)))
    assert (share.weight_most, share.weight_least, share.instances) == (0.75, 0.25, 2)
    assert share_of(book("b")).weight_most is None


def test_parts_of_a_request_come_best_first() -> None:
    """Parts are sorted by score and have the first and last choice for this request only."""
    books = [
        book("a", instance(1), instance(2), scores=(0.5, 0.25)),
        book("b", instance(3), instance(4, "r-2"), scores=(0.75, 1.0)),
        book("c"),
    ]
    parts = parts_of(OUTCOME, books)
    assert [(part.zone, part.instances) for part in parts] == [("b", 1), ("a", 2)]
    assert [(part.first.score, part.last.score) for part in parts] == [(0.75, 0.75), (0.5, 0.25)]


def test_a_list_that_differs_from_the_books_is_a_fault() -> None:
    """Servers that differ from the zones' books, or do not run, are faults."""
    books = {"a": book("a", instance(1), instance(2)), "b": book("b", instance(3))}
    whole = listed(instance(1), instance(2), instance(3))
    assert check([OUTCOME], {"r-1": whole}, books) == []
    assert check([OUTCOME], {"r-1": whole[1:]}, books) == [
        "the root's servers of r-1 differ from those of the zones"
    ]
    failed = [*whole[1:], *listed(instance(1), status="ERROR")]
    assert check([OUTCOME], {"r-1": failed}, books) == ["1 servers of r-1 are ERROR"]
