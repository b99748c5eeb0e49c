"""Tests for the exact search: best fit, whole devices and backtracking."""

from collections.abc import Mapping, Sequence

import pytest

from berth.domain.compute.flavor import Flavor
from berth.domain.compute.needs import needs_of
from berth.scheduling.granular.search import (
    STEPS_MAX,
    ClassCapacity,
    GroupAssignment,
    ProviderView,
    search,
)
from berth.scheduling.granular.tree_request import TreeRequest, tree_request_of

NONE = "none"
ISOLATE = "isolate"


def ask(
    policy: str,
    *groups: Mapping[str, int],
    vcpus: int = 0,
    specs: Mapping[str, str] | None = None,
) -> TreeRequest:
    """Return a request for groups with suffixes a, b, c and so on."""
    extra = {
        f"resources{chr(97 + number)}:{name}": str(amount)
        for number, group in enumerate(groups)
        for name, amount in group.items()
    }
    extra |= {"group_policy": policy, **(specs or {})}
    return tree_request_of(needs_of(Flavor("1", "f", vcpus, 0, extra_specs=extra)))


def givers(
    one: TreeRequest, *free: Mapping[str, int], traits: Sequence[str] = ()
) -> list[ProviderView]:
    """Return providers with these free amounts by class; the first is the root."""
    return [
        ProviderView(
            tuple(
                ClassCapacity(has[name], 10_000, 1, 1) if name in has else None
                for name in one.classes
            ),
            frozenset(traits[number].split()) if number < len(traits) else frozenset(),
        )
        for number, has in enumerate(free)
    ]


def found(
    one: TreeRequest, *free: Mapping[str, int], traits: Sequence[str] = ()
) -> list[int] | None:
    """Return the provider of each group by suffix, or None if the search fails."""
    result = search(one, givers(one, *free, traits=traits))
    return None if result is None else [result.groups[key] for key in sorted(result.groups)]


def gpus(*free: int) -> list[dict[str, int]]:
    """Return a root and GPUs with these free amounts."""
    return [{}, *({"M": one} for one in free)]


def test_a_share_goes_where_it_leaves_the_least() -> None:
    """A group goes to the provider on which it leaves the least."""
    assert found(ask(NONE, {"M": 500}), *gpus(1000, 500, 700)) == [2]
    assert found(ask(NONE, {"M": 600}), *gpus(1000, 500, 700)) == [3]
    assert found(ask(NONE, {"M": 1000}), *gpus(1000, 500, 700)) == [1]
    assert found(ask(NONE, {"M": 1001}), *gpus(1000, 500, 700)) is None


def test_the_first_by_name_wins_among_equals() -> None:
    """Among equal providers the first one is chosen."""
    assert found(ask(NONE, {"M": 500}), *gpus(1000, 1000)) == [1]


def test_several_groups_may_share_a_provider_unless_isolated() -> None:
    """Groups may share a provider unless they are isolated."""
    two = {"M": 500}, {"M": 500}
    assert found(ask(NONE, *two), *gpus(1000, 1000)) == [1, 1]
    assert found(ask(ISOLATE, *two), *gpus(1000, 1000)) == [1, 2]
    assert found(ask(ISOLATE, *two), *gpus(1000)) is None
    assert found(ask(NONE, *two), *gpus(900)) is None


def test_larger_groups_are_placed_first() -> None:
    """Larger groups are placed before smaller ones."""
    assert found(ask(NONE, {"M": 300}, {"M": 700}), *gpus(700, 300)) == [2, 1]
    assert found(ask(ISOLATE, {"M": 300}, {"M": 700}), *gpus(700, 400)) == [2, 1]


def test_best_fit_is_taken_back_when_it_was_wrong() -> None:
    """The search backtracks when best fit leaves no room for a later group."""
    assert found(ask(NONE, {"M": 5}, {"M": 4}, {"M": 4}, {"M": 2}), *gpus(6, 9)) == [2, 2, 1, 1]


def test_a_matching_moves_those_that_came_first() -> None:
    """Isolated groups are rearranged to give each a provider."""
    one = ask(ISOLATE, {"M": 2, "N": 1}, {"M": 3}, {"N": 2})
    assert found(one, {}, {"M": 3, "N": 1}, {"M": 2, "N": 2}, {"N": 2}) == [2, 1, 3]


def test_the_root_may_give_a_group_too() -> None:
    """The root may serve a group with what the unsuffixed amounts leave."""
    assert found(ask(NONE, {"VCPU": 2}, vcpus=2), {"VCPU": 4}) == [0]
    assert found(ask(NONE, {"VCPU": 3}, vcpus=2), {"VCPU": 4}) is None
    assert found(ask(NONE, {"VCPU": 3}, vcpus=2), {"VCPU": 4}, {"VCPU": 3}) == [1]


def test_the_unsuffixed_group_gives_way_to_a_suffixed_one() -> None:
    """Unsuffixed amounts prefer the root, and move to a child if a group needs the root."""
    one = ask(NONE, {"VCPU": 4}, vcpus=2)
    result = search(one, givers(one, {"VCPU": 4}, {"VCPU": 2}))
    assert result == GroupAssignment({"VCPU": 1}, {"a": 0})
    simple = ask(NONE, vcpus=2)
    assert search(simple, givers(simple, {"VCPU": 4}, {"VCPU": 2})) == GroupAssignment(
        {"VCPU": 0}, {}
    )
    assert search(simple, givers(simple, {"VCPU": 1}, {"VCPU": 9}, {"VCPU": 2})) == GroupAssignment(
        {"VCPU": 2}, {}
    )


def test_a_class_that_nobody_has_is_left_out() -> None:
    """An unsuffixed class that no provider has is left out of the result."""
    one = ask(NONE, {"M": 1}, vcpus=2)
    assert search(one, givers(one, {}, {"M": 1})) == GroupAssignment({}, {"a": 1})


def test_traits_of_a_group_are_those_of_its_provider() -> None:
    """A group's provider must have its required traits and none of its forbidden ones."""
    two = gpus(5, 5)
    required = ask(NONE, {"M": 1}, specs={"traita:T": "required"})
    assert found(required, *two, traits=("T", "", "T")) == [2]
    assert found(required, *two, traits=("T",)) is None
    forbidden = ask(NONE, {"M": 1}, specs={"traita:T": "forbidden"})
    assert found(forbidden, *two, traits=("", "T", "")) == [2]


@pytest.mark.parametrize(
    ("specs", "traits", "giver"),
    [
        ({"trait:T": "required"}, ("T", ""), 1),
        ({"trait:T": "required"}, ("", "", "T"), 2),
        ({"trait:T": "required"}, ("", "", "", "T"), None),
        ({"trait:T": "required"}, (), 1),
        ({"berth:any_trait": "T|U"}, ("", "", "U"), 2),
        ({"trait:T": "forbidden"}, ("", "T", ""), 2),
        ({"trait:T": "forbidden"}, ("", "T", "T"), None),
    ],
)
def test_traits_of_the_unsuffixed_group(
    specs: dict[str, str], traits: Sequence[str], giver: int | None
) -> None:
    """The providers of the unsuffixed amounts must meet the traits together."""
    one = ask(NONE, specs={"resources:M": "1", **specs})
    result = search(one, givers(one, *gpus(1, 2), {}, traits=traits))
    assert (None if result is None else result.unsuffixed["M"]) == giver


def test_units_of_a_provider_hold_for_each_group() -> None:
    """The minimum unit and step apply to each group, the maximum to their sum."""
    one = ask(NONE, {"M": 4}, {"M": 4})
    for offer, able in (
        (ClassCapacity(8, 8, 1, 1), True),
        (ClassCapacity(8, 8, 4, 4), True),
        (ClassCapacity(8, 8, 5, 1), False),
        (ClassCapacity(8, 8, 1, 3), False),
        (ClassCapacity(8, 7, 1, 1), False),
        (ClassCapacity(100, 3, 1, 1), False),
    ):
        root = ProviderView((None,), frozenset())
        result = search(one, [root, ProviderView((offer,), frozenset())])
        assert (result is not None) == able, offer


def test_a_hopeless_search_ends() -> None:
    """A search with very many combinations is given up with None."""
    sizes = (17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61)
    many = ask(NONE, *({"M": size} for size in sizes))
    half = sum(sizes) // 2
    assert found(many, *gpus(half - 1, half - 2)) is None
    alike = ask(NONE, *({"M": 2} for _ in range(20)))
    assert found(alike, *gpus(*[3] * 19)) is None
    assert 2 ** len(sizes) > STEPS_MAX


def test_where_packing_gives_up_providers_of_their_own_are_found() -> None:
    """Groups that fit one provider each are placed although packing gives up."""
    sizes = range(3, 27)
    free = [size + 1 for size in sizes]
    one = ask(NONE, *({"M": size} for size in sizes))
    assert found(one, *gpus(*free)) is not None
