"""Query parameters: amounts, traits and aggregates, and the errors for invalid ones."""

import pytest

from berth.api.placement.errors import PlacementError
from berth.api.placement.queries import (
    Members,
    Traits,
    amounts_of,
    listed_traits,
    members_of,
    provider_query,
    traits_of,
)
from berth.domain.inventory.resources import AMOUNT_MAX
from berth.services.providers.resource_providers import ProviderQuery

A = "11111111-1111-4111-8111-111111111111"
B = "22222222-2222-4222-8222-222222222222"
BARE = "33333333333343338333333333333333"


def _sets(*names: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(one.split()) for one in names)


@pytest.mark.parametrize(
    ("value", "amounts"),
    [
        ("VCPU:2", {"VCPU": 2}),
        ("VCPU:2,MEMORY_MB:1024", {"VCPU": 2, "MEMORY_MB": 1024}),
        ("VCPU:2,VCPU:3", {"VCPU": 3}),
        ("VCPU: 2", {"VCPU": 2}),
        (":1", {"": 1}),
        (f"VCPU:{10**30}", {"VCPU": AMOUNT_MAX + 1}),
    ],
)
def test_amounts_are_read(value: str, amounts: dict[str, int]) -> None:
    """Amounts are at least 1, and values above the maximum are reduced to one above it."""
    assert amounts_of(value) == amounts


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("", "Got: empty string."),
        ("  ", "Got: empty string."),
        ("VCPU", "Got: VCPU."),
        ("VCPU:1,", "Got: ."),
        ("VCPU:1:2", "Got: VCPU:1:2."),
        ("VCPU:x", "Requested resource VCPU expected positive integer amount. Got: x."),
        ("VCPU:1.5", "Requested resource VCPU expected positive integer amount. Got: 1.5."),
        ("VCPU:0", "Requested resource VCPU requires amount >= 1. Got: 0."),
        ("VCPU:-3", "Requested resource VCPU requires amount >= 1. Got: -3."),
    ],
)
def test_bad_amounts_are_refused(value: str, problem: str) -> None:
    """The error has the invalid part."""
    with pytest.raises(PlacementError) as raised:
        amounts_of(value)
    assert raised.value.status == 400
    assert raised.value.message.endswith(problem)


@pytest.mark.parametrize(
    ("values", "minor", "traits"),
    [
        (["A"], 18, Traits(_sets("A"))),
        (["A, B"], 18, Traits(_sets("A", "B"))),
        (["A", "B"], 38, Traits(_sets("B"))),
        (["A", "B"], 39, Traits(_sets("A", "B"))),
        (["A,!B"], 22, Traits(_sets("A"), frozenset("B"))),
        (["!!A"], 22, Traits((), frozenset("A"))),
        (["in:A,B", "C"], 39, Traits(_sets("A B", "C"))),
        (["!A", "!B"], 39, Traits((), frozenset("AB"))),
        ([], 39, Traits()),
    ],
)
def test_traits_are_read(values: list[str], minor: int, traits: Traits) -> None:
    """Required traits, forbidden ones (1.22) and alternatives (1.39) are read."""
    assert traits_of(values, minor) == traits


@pytest.mark.parametrize(
    ("value", "minor", "problem"),
    [
        ("", 18, "of the form: HW_CPU_X86_VMX,CUSTOM_MAGIC. Got an empty trait in: "),
        ("A,", 22, "of the form: HW_CPU_X86_VMX,!CUSTOM_MAGIC. Got an empty trait in: A,"),
        ("!", 22, "Got an empty trait in: !"),
        ("!A", 21, "of the form: HW_CPU_X86_VMX,CUSTOM_MAGIC. Got: !A"),
        ("in:A", 38, "only supported since microversion 1.39. Got: in:A"),
        ("in:A,", 39, "of the form: in:HW_CPU_X86_VMX,CUSTOM_MAGIC. Got an empty trait in: in:A,"),
        ("in:A,!B", 39, "does not support forbidden traits. Got: in:A,!B"),
    ],
)
def test_bad_traits_are_refused(value: str, minor: int, problem: str) -> None:
    """The error has the whole value."""
    with pytest.raises(PlacementError) as raised:
        traits_of([value], minor)
    assert raised.value.message.startswith("Invalid query string parameters: ")
    assert raised.value.message.endswith(problem)


def test_a_list_of_traits_keeps_its_order() -> None:
    """Required traits keep their order."""
    assert listed_traits("B,!X,A", may_forbid=True) == (["B", "A"], frozenset("X"))


@pytest.mark.parametrize(
    ("values", "minor", "members"),
    [
        ([A], 3, Members(_sets(A))),
        ([BARE], 3, Members(_sets(BARE))),
        ([f"in:{A},{B}"], 3, Members(_sets(f"{A} {B}"))),
        ([A, B], 24, Members(_sets(A, B))),
        ([f"!{A}"], 32, Members((), frozenset({A}))),
        ([f"!in:{A},{B}", BARE], 32, Members(_sets(BARE), frozenset({A, B}))),
        ([], 39, Members()),
    ],
)
def test_aggregates_are_read(values: list[str], minor: int, members: Members) -> None:
    """Alternatives, several parameters (1.24) and forbidden aggregates (1.32) are read."""
    assert members_of(values, minor) == members


@pytest.mark.parametrize(
    ("values", "minor", "problem"),
    [
        ([A, B], 23, "Multiple member_of1 parameters are not supported"),
        ([f"!{A}"], 31, "Forbidden member_of1 parameters are not supported in the specified "),
        ([f"{A},{B}"], 39, "Multiple values for 'member_of' must be prefixed with the 'in:' or "),
        ([f"!{A},{B}"], 39, "Multiple values for 'member_of' must be prefixed with the 'in:' or "),
        (["house"], 39, "Invalid query string parameters: Expected 'member_of' parameter to "),
        ([f"in:{A},"], 39, "Invalid query string parameters: Expected 'member_of' parameter to "),
        ([""], 39, "Invalid query string parameters: Expected 'member_of' parameter to "),
    ],
)
def test_bad_aggregates_are_refused(values: list[str], minor: int, problem: str) -> None:
    """The error names the parameter of the group where its version does not support it."""
    with pytest.raises(PlacementError) as raised:
        members_of(values, minor, "1")
    assert raised.value.message.startswith(problem)


def test_a_query_for_providers_is_all_of_it() -> None:
    """All parameters are read, and an empty one is ignored."""
    query = [("name", "x"), ("uuid", A), ("in_tree", B), ("resources", "VCPU:1")]
    query += [("required", "T,!U"), ("member_of", BARE), ("member_of", f"!{A}")]
    assert provider_query(query, 39) == ProviderQuery(
        name="x",
        uuid=A,
        in_tree=B,
        amounts=(("VCPU", 1),),
        required=_sets("T"),
        forbidden=frozenset("U"),
        member_of=_sets(BARE),
        outside_of=frozenset({A}),
    )
    assert provider_query([("name", "")], 0) == ProviderQuery()
    assert provider_query([("name", "x"), ("name", "y")], 0) == ProviderQuery(name="y")
