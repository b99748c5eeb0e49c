"""What a query for candidates may not be."""

import pytest

from berth.scheduling.candidates.query import CandidateGroup, CandidateQuery

VCPU = CandidateGroup("", {"VCPU": 1})


def test_an_amount_is_at_least_one() -> None:
    """Nothing of a class is not an amount."""
    with pytest.raises(ValueError, match="at least 1"):
        CandidateGroup("1", {"VCPU": 0})


def test_the_unsuffixed_group_asks_for_something() -> None:
    """Only a group with a suffix may be resourceless."""
    with pytest.raises(ValueError, match="unsuffixed"):
        CandidateGroup("")
    assert not CandidateGroup("1").amounts


@pytest.mark.parametrize("groups", [(), (VCPU, VCPU), (CandidateGroup("1"),)])
def test_groups_differ_and_ask_for_something(groups: tuple[CandidateGroup, ...]) -> None:
    """There is a group, each suffix is there once, and one group at least has amounts."""
    with pytest.raises(ValueError, match="group"):
        CandidateQuery(groups)


@pytest.mark.parametrize("suffixes", [frozenset({""}), frozenset({"2"}), frozenset[str]()])
def test_a_subtree_is_of_groups_with_suffixes(suffixes: frozenset[str]) -> None:
    """The unsuffixed group and unknown ones are in no subtree, and a subtree is of some."""
    with pytest.raises(ValueError, match="same_subtree"):
        CandidateQuery((VCPU, CandidateGroup("1", {"VCPU": 1})), same_subtree=(suffixes,))


def test_a_limit_is_at_least_one() -> None:
    """No candidates is no limit."""
    with pytest.raises(ValueError, match="limit"):
        CandidateQuery((VCPU,), limit=0)
