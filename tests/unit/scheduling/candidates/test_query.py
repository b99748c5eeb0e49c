"""Tests for the validation of candidate queries."""

import pytest

from berth.scheduling.candidates.query import CandidateGroup, CandidateQuery

VCPU = CandidateGroup("", {"VCPU": 1})


def test_an_amount_is_at_least_one() -> None:
    """An amount of 0 is refused."""
    with pytest.raises(ValueError, match="at least 1"):
        CandidateGroup("1", {"VCPU": 0})


def test_the_unsuffixed_group_asks_for_something() -> None:
    """The unsuffixed group must have amounts."""
    with pytest.raises(ValueError, match="unsuffixed"):
        CandidateGroup("")
    assert not CandidateGroup("1").amounts


@pytest.mark.parametrize("groups", [(), (VCPU, VCPU), (CandidateGroup("1"),)])
def test_groups_differ_and_ask_for_something(groups: tuple[CandidateGroup, ...]) -> None:
    """A query needs distinct suffixes and at least one group with amounts."""
    with pytest.raises(ValueError, match="group"):
        CandidateQuery(groups)


@pytest.mark.parametrize("suffixes", [frozenset({""}), frozenset({"2"}), frozenset[str]()])
def test_a_subtree_is_of_groups_with_suffixes(suffixes: frozenset[str]) -> None:
    """A subtree must list known suffixed groups."""
    with pytest.raises(ValueError, match="same_subtree"):
        CandidateQuery((VCPU, CandidateGroup("1", {"VCPU": 1})), same_subtree=(suffixes,))


def test_a_limit_is_at_least_one() -> None:
    """A limit of 0 is refused."""
    with pytest.raises(ValueError, match="limit"):
        CandidateQuery((VCPU,), limit=0)
