"""Tests for AggregateInstanceExtraSpecsFilter."""

import pytest

from berth.domain.compute.aggregate import Aggregate
from berth.scheduling.filters import aggregates_meet_extra_specs
from berth.testing.fleets import Box, asking, snapshot_of
from tests.unit.scheduling.conftest import Ask

RULE = aggregates_meet_extra_specs.build()
SCOPE = "aggregate_instance_extra_specs"


def aggregate(number: int, hosts: str, **metadata: str) -> Aggregate:
    """Return an aggregate of hosts with names of one letter."""
    return Aggregate(number, f"u{number}", f"n{number}", frozenset(hosts), metadata)


FLEET = snapshot_of(
    [Box("a"), Box("b"), Box("c"), Box("d")],
    aggregates=[
        aggregate(1, "ab", ssd="true", speed="3"),
        aggregate(2, "bc", speed="7, fast", **{"a:b": "x"}),
        aggregate(3, "c", ssd=" true , maybe", empty=""),
    ],
)


@pytest.mark.parametrize(
    ("specs", "kept"),
    [
        ({}, None),
        ({"hw:cpu_policy": "dedicated", "capabilities:ssd": "true"}, None),
        ({f"{SCOPE}:ssd": "true"}, ["a", "b", "c"]),
        ({"ssd": "true"}, ["a", "b", "c"]),
        ({"ssd": "<or> maybe <or> no"}, ["c"]),
        ({"ssd": "true", f"{SCOPE}:speed": ">= 5"}, ["b", "c"]),
        ({"speed": "= 3"}, ["a", "b", "c"]),
        ({"speed": "== 3"}, ["a", "b"]),
        ({"speed": "<in> as"}, ["b", "c"]),
        ({"speed": "7, fast"}, []),
        ({f"{SCOPE}:a:b": "x"}, ["b", "c"]),
        ({"a:b": "x"}, None),
        ({"empty": ""}, ["c"]),
        ({"empty": "s== "}, []),
        ({"unheard_of": "x"}, []),
        ({"rack": "r1", "ssd": "true"}, []),
        ({f"{SCOPE}:": "x"}, []),
    ],
)
def test_some_aggregate_must_have_a_word_that_matches(
    ask: Ask, specs: dict[str, str], kept: list[str] | None
) -> None:
    """Each spec must match a word of some aggregate; other scopes are ignored."""
    assert ask(FLEET, asking(specs=specs)).kept(RULE) == kept


@pytest.mark.parametrize(
    ("requirement", "flaw"),
    [
        (">= many", "'many' is not a number"),
        (">= 1e999", "'1e999' is not a number"),
        ("== nan", "'nan' is not a number"),
        (">=", ">= has no operand"),
        ("= ", "= has no operand"),
    ],
)
def test_bad_numbers_refuse_hosts_and_not_the_request(
    ask: Ask, requirement: str, flaw: str
) -> None:
    """An invalid number removes all hosts, and the reason explains it.

    In Nova it fails the request.
    """
    asked = ask(FLEET, asking(specs={"speed": requirement}))
    assert asked.kept(RULE) == []
    assert asked.why(RULE, 0) == f"its aggregates do not meet speed={requirement} ({flaw})"


def test_unmet_specs_are_named_with_what_there_is(ask: Ask) -> None:
    """The reason names unmet specs and the host's values; one unmet spec gives a relaxation."""
    specs = {"ssd": "true", f"{SCOPE}:speed": "fast"}
    asked = ask(FLEET, asking(specs=specs))
    assert asked.why(RULE, 0) == (f"its aggregates do not meet {SCOPE}:speed=fast (they have 3)")
    assert asked.why(RULE, 3) == (
        "its aggregates do not meet ssd=true (they have nothing), "
        f"{SCOPE}:speed=fast (they have nothing)"
    )
    assert asked.relaxed(RULE, [0, 3]) == [
        (f"without the extra spec {SCOPE}:speed: 1 host", ("a",))
    ]


def test_it_is_asked_once_a_request() -> None:
    """The filter runs once per request and not on rebuilds."""
    assert RULE.once_per_request
    assert not RULE.run_on_rebuild
