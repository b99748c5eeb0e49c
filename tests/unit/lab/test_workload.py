"""Tests for the validation of workloads and the order of their events."""

import pytest

from berth.domain.errors import InvalidInputError
from berth.lab.workload import (
    Arrival,
    ArrivalEvent,
    DepartureEvent,
    FlavorSpec,
    FleetHost,
    Workload,
    events,
)


def workload_of(*arrivals: Arrival, hosts: tuple[FleetHost, ...] = ()) -> Workload:
    """Return a workload with one flavor, called small."""
    return Workload("test", hosts, {"small": FlavorSpec("small", 1, 512)}, arrivals)


def story(workload: Workload, until_s: float | None = None) -> list[str]:
    """Return the events as `+name@second` for arrivals and `-name@second` for departures."""
    signs = {ArrivalEvent: "+", DepartureEvent: "-"}
    return [
        f"{signs[type(event)]}{event.arrival.name}@{event.at_s:g}"
        for event in events(workload, until_s=until_s)
    ]


def test_events_come_in_time_order() -> None:
    """Arrivals and departures are yielded in the order of their times."""
    workload = workload_of(
        Arrival(0, "a", "small", lifetime_s=5), Arrival(3, "b", "small", lifetime_s=1)
    )
    assert story(workload) == ["+a@0", "+b@3", "-b@4", "-a@5"]


def test_departure_comes_before_arrival_at_equal_times() -> None:
    """At equal times a departure comes before an arrival."""
    workload = workload_of(Arrival(0, "a", "small", lifetime_s=5), Arrival(5, "b", "small"))
    assert story(workload) == ["+a@0", "-a@5", "+b@5"]


def test_equal_departures_keep_the_order_of_arrival() -> None:
    """Departures at the same second keep the order of the arrivals."""
    workload = workload_of(
        Arrival(0, "z", "small", lifetime_s=6),
        Arrival(2, "y", "small", lifetime_s=4),
        Arrival(4, "x", "small", lifetime_s=2),
    )
    assert story(workload) == ["+z@0", "+y@2", "+x@4", "-z@6", "-y@6", "-x@6"]


def test_lifetime_of_zero_departs_after_its_own_arrival() -> None:
    """An instance with a lifetime of zero departs between its arrival and the next one."""
    workload = workload_of(
        Arrival(1, "a", "small", lifetime_s=0), Arrival(1, "b", "small", lifetime_s=0)
    )
    assert story(workload) == ["+a@1", "-a@1", "+b@1", "-b@1"]


def test_without_a_lifetime_nothing_departs() -> None:
    """An arrival whose lifetime is None never departs."""
    assert story(workload_of(Arrival(1, "a", "small"))) == ["+a@1"]


def test_until_leaves_out_what_comes_later() -> None:
    """Events up to and including the given second are yielded."""
    workload = workload_of(
        Arrival(0, "a", "small", lifetime_s=2),
        Arrival(1, "b", "small", lifetime_s=2),
        Arrival(4, "c", "small"),
    )
    assert story(workload, until_s=2) == ["+a@0", "+b@1", "-a@2"]


def test_arrivals_out_of_order_are_refused() -> None:
    """Arrivals that are not sorted by time and then by name are refused."""
    with pytest.raises(InvalidInputError, match="is out of order; sort them by at_s"):
        workload_of(Arrival(2, "a", "small"), Arrival(1, "b", "small"))
    with pytest.raises(InvalidInputError, match="then by name"):
        workload_of(Arrival(1, "b", "small"), Arrival(1, "a", "small"))


def test_unknown_flavor_is_refused() -> None:
    """An arrival with an unknown flavor is refused, and the error names both."""
    with pytest.raises(InvalidInputError, match="'a' requests unknown flavor 'huge'"):
        workload_of(Arrival(0, "a", "huge"))


def test_names_given_twice_are_refused() -> None:
    """Two hosts or two arrivals with the same name are refused."""
    with pytest.raises(InvalidInputError, match="hosts: 'h' is repeated"):
        workload_of(hosts=(FleetHost("h", {}), FleetHost("h", {})))
    with pytest.raises(InvalidInputError, match="arrivals: 'a' is repeated"):
        workload_of(Arrival(0, "a", "small"), Arrival(1, "a", "small"))


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("at_s", {"at_s": -1.0}),
        ("at_s", {"at_s": float("nan")}),
        ("lifetime_s", {"lifetime_s": -0.5}),
    ],
)
def test_impossible_times_are_refused(field: str, values: dict[str, float]) -> None:
    """Negative and undefined times are refused."""
    with pytest.raises(InvalidInputError, match=f"arrival 'a': {field}"):
        Arrival(values.get("at_s", 0.0), "a", "small", lifetime_s=values.get("lifetime_s"))


def test_fewer_than_one_instance_is_refused() -> None:
    """A request for fewer than one instance is refused."""
    with pytest.raises(InvalidInputError, match="count: 0 must be at least 1"):
        Arrival(0, "a", "small", count=0)
