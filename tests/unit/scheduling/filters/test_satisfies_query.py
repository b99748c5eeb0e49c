"""Tests for JsonFilter."""

from dataclasses import replace

import pytest

from berth.domain.compute.request import Request
from berth.domain.errors import InvalidInputError
from berth.scheduling.filters import satisfies_query
from berth.testing.fleets import Box, asking, sized, snapshot_of
from tests.unit.scheduling.conftest import Ask

RULE = satisfies_query.build()
SNAPSHOT = snapshot_of(
    [
        Box("a", stats={"rack": "r1"}),
        Box("b", inventories=sized(memory_mb=512)),
        Box("c", stats={"rack": "r1"}, hypervisor_type="kvm"),
    ]
)
QUERY = (
    '["and", [">=", "$free_ram_mb", 1024], ["=", "$rack", "r1"], ["=", "$hypervisor_type", "kvm"]]'
)


def querying(*texts: str) -> Request:
    """Return a request with this query hint."""
    return replace(asking(), hints={"query": texts})


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ('[">=", "$free_ram_mb", 1024]', ["a", "c"]),
        ('["=", "$rack", "r1"]', ["a", "c"]),
        (QUERY, ["c"]),
        ('["=", "$nothing", 1]', []),
        ('["and"]', ["a", "b", "c"]),
        ("[]", None),
        (" ", None),
    ],
)
def test_hosts_that_satisfy_it_stay(ask: Ask, query: str, kept: list[str] | None) -> None:
    """Hosts that satisfy the query stay; an empty query does not apply."""
    assert ask(SNAPSHOT, querying(query)).kept(RULE) == kept


def test_without_the_hint_nothing_is_asked(ask: Ask) -> None:
    """The filter does not apply without the hint."""
    assert ask(SNAPSHOT, asking()).kept(RULE) is None
    assert ask(SNAPSHOT, querying()).kept(RULE) is None


@pytest.mark.parametrize("texts", [("nonsense",), ("[1]",), ("[]", "[]")])
def test_what_is_no_query_refuses_the_request(ask: Ask, texts: tuple[str, ...]) -> None:
    """A hint that is not a single valid query is refused."""
    with pytest.raises(InvalidInputError, match=r"^hints\.query: "):
        ask(SNAPSHOT, querying(*texts)).kept(RULE)


def test_the_reason_names_what_does_not_hold_and_the_values(ask: Ask) -> None:
    """The reason names each part of an `and` that fails, with the host's values."""
    asked = ask(SNAPSHOT, querying(QUERY))
    assert asked.why(RULE, 0) == (
        '["=", "$hypervisor_type", "kvm"] does not hold: $hypervisor_type is \'QEMU\''
    )
    assert asked.why(RULE, 1) == (
        '[">=", "$free_ram_mb", 1024] does not hold: $free_ram_mb is 512; '
        '["=", "$rack", "r1"] does not hold: $rack is None; '
        '["=", "$hypervisor_type", "kvm"] does not hold: $hypervisor_type is \'QEMU\''
    )
    assert ask(SNAPSHOT, querying('["or"]')).why(RULE, 0) == '["or"] does not hold'


def test_the_relaxation_names_the_one_part_that_fails(ask: Ask) -> None:
    """A host that fails one part gives a relaxation, which has a limited length."""
    asked = ask(SNAPSHOT, querying(QUERY))
    assert asked.relaxed(RULE, [0, 1]) == [
        ('without ["=", "$hypervisor_type", "kvm"] in the query: 1 host', ("a",))
    ]
    long = '["in", "$rack", ' + ", ".join(f'"rack-{n}"' for n in range(100)) + "]"
    ((text, _),) = ask(SNAPSHOT, querying(long)).relaxed(RULE, [0])
    assert len(text) < 250
