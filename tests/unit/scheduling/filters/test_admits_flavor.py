"""AggregateTypeAffinityFilter: hosts that are kept for flavors."""

import pytest

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.flavor import Flavor
from berth.scheduling.filters import admits_flavor
from berth.testing.fleets import Box, asking, snapshot_of
from tests.unit.scheduling.conftest import Ask

RULE = admits_flavor.build()
MANY = ",".join(f"f{number}" for number in range(9))
FLEET = snapshot_of(
    [Box("a"), Box("b"), Box("c"), Box("d")],
    aggregates=[
        Aggregate(1, "u1", "n1", frozenset("ab"), {"instance_type": "m1.small"}),
        Aggregate(2, "u2", "n2", frozenset("b"), {"instance_type": "m1.tiny , m1.large"}),
        Aggregate(3, "u3", "n3", frozenset("c"), {"instance_types": "m1.small"}),
        Aggregate(4, "u4", "n4", frozenset("d"), {"instance_type": MANY}),
    ],
)


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("m1.small", ["a", "b", "c"]),
        ("m1.large", ["b", "c"]),
        ("m1.tiny", ["b", "c"]),
        ("m1", ["c"]),
        ("f8", ["c", "d"]),
    ],
)
def test_hosts_that_list_flavors_are_for_those_alone(ask: Ask, name: str, kept: list[str]) -> None:
    """By name; hosts of which no aggregate has the key are open to all."""
    assert ask(FLEET, asking(Flavor("1", name, 1, 512))).kept(RULE) == kept


def test_the_reason_names_the_flavors_and_the_relaxation_does_not(ask: Ask) -> None:
    """One of them may be private."""
    asked = ask(FLEET, asking(Flavor("1", "m1.huge", 1, 512)))
    assert asked.why(RULE, 1) == (
        "it is kept for the flavors m1.large, m1.small, m1.tiny, not for m1.huge"
    )
    assert asked.why(RULE, 3) == (
        "it is kept for the flavors f0, f1, f2, f3, f4 and 4 more, not for m1.huge"
    )
    assert asked.relaxed(RULE, [3, 0]) == [
        ("a flavor that hosts are kept for: 2 hosts", ("a", "d"))
    ]


def test_it_is_asked_once_a_request() -> None:
    """Instances change no aggregate."""
    assert RULE.once_per_request
