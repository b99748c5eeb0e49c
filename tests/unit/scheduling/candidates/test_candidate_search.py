"""Tests for each rule about candidates, including Placement's quirks."""

import pytest

from berth.domain.inventory.resources import Inventory
from berth.scheduling.candidates.candidate_search import find_candidates
from berth.tables.provider.sharing import SHARES
from tests.unit.scheduling.candidates.providers import (
    asking,
    forest,
    found,
    group,
    provider,
    uuid_of,
)

VCPU = {"VCPU": 1}
DISK = {"DISK_GB": 1}
BOTH = {"VCPU": 1, "DISK_GB": 1}


NUMA = (
    provider("host", {"DISK_GB": 10}, traits="HOST"),
    provider("cell0", {"VCPU": 4}, below="host", traits="CELL"),
    provider("cell1", {"VCPU": 4}, below="host", traits="CELL"),
    provider("nic0", {"NIC": 2}, below="cell0", traits="FAST"),
    provider("nic1", {"NIC": 2}, below="cell1", traits="SLOW"),
)


def test_a_provider_alone() -> None:
    """A provider without a tree that has all amounts is returned as a row."""
    table = forest(provider("a", {"VCPU": 2, "DISK_GB": 2}), provider("b", VCPU))
    answer = find_candidates(table, asking(group(amounts=BOTH)))
    assert [table.uuid(row) for row in answer.alone.tolist()] == [uuid_of("a")]
    assert answer.amounts == (("VCPU", 1), ("DISK_GB", 1))
    assert (answer.composed, answer.steps) == ((), 0)


def test_nothing_fits_a_class_that_nobody_has() -> None:
    """Unknown names in a query raise no error and find nothing, unless they are excluded."""
    table = forest(provider("a", VCPU))
    assert found(table, asking(group(amounts={"GOLD": 1}))) == []
    assert found(table, asking(group(amounts=VCPU, required=["GOLDEN"]))) == []
    assert found(table, asking(group(amounts=VCPU, member_of=["nowhere"]))) == []
    assert found(table, asking(group(amounts=VCPU, in_tree="nobody"))) == []
    assert found(table, asking(group(amounts=VCPU, forbidden="GOLDEN", outside_of="x"))) != []
    assert found(forest(), asking(group(amounts=VCPU))) == []


@pytest.mark.parametrize(
    ("amount", "fits"), [(1, False), (2, True), (3, False), (4, True), (6, False), (8, False)]
)
def test_units_and_room(amount: int, fits: bool) -> None:
    """An amount must fit the units and the unused capacity of the inventory."""
    stock = Inventory(total=5, min_unit=2, max_unit=6, step_size=2, allocation_ratio=1.5)
    table = forest(provider("a", {"VCPU": stock}, used={"VCPU": 2}))
    assert bool(found(table, asking(group(amounts={"VCPU": amount})))) == fits


def test_the_unsuffixed_group_is_spread() -> None:
    """The classes of the unsuffixed group may come from different providers of a tree."""
    table = forest(*NUMA, provider("other", VCPU))
    assert found(table, asking(group(amounts=BOTH))) == [
        (("cell0", "host"),),
        (("cell1", "host"),),
    ]


def test_a_suffixed_group_is_of_one_provider() -> None:
    """A suffixed group is served by a single provider."""
    table = forest(*NUMA, provider("flat", BOTH))
    assert found(table, asking(group("1", BOTH))) == [(("flat",),)]


def test_groups_come_from_one_tree() -> None:
    """Groups are not served by two trees that share nothing."""
    table = forest(provider("a", VCPU), provider("b", DISK))
    assert found(table, asking(group("1", VCPU), group("2", DISK))) == []


def test_traits_of_the_unsuffixed_group() -> None:
    """The providers that serve the unsuffixed group must have its traits between them."""
    table = forest(*NUMA)
    ask = group(amounts={"VCPU": 1, "NIC": 1}, required=["CELL", "FAST SLOW"])
    assert len(found(table, asking(ask))) == 4
    ask = group(amounts={"VCPU": 1, "NIC": 1}, required=["CELL", "FAST"])
    assert found(table, asking(ask)) == [(("cell0", "nic0"),), (("cell1", "nic0"),)]
    assert found(table, asking(group(amounts=BOTH, required=["FAST"]))) == []
    ask = group(amounts={"VCPU": 1, "NIC": 1}, forbidden="SLOW")
    assert found(table, asking(ask)) == [(("cell0", "nic0"),), (("cell1", "nic0"),)]


def test_traits_of_a_suffixed_group() -> None:
    """The provider of a suffixed group has a trait of each required set and no forbidden one."""
    table = forest(provider("a", VCPU, traits="X Y"), provider("b", VCPU, traits="X"))
    assert found(table, asking(group("1", VCPU, required=["X", "Y Z"]))) == [(("a",),)]
    assert found(table, asking(group("1", VCPU, required=["X"], forbidden="Y"))) == [(("b",),)]


def test_aggregates_of_the_root_count_for_the_unsuffixed_group() -> None:
    """The root's aggregates count for the unsuffixed group and not for a suffixed one."""
    table = forest(
        provider("a", {}, aggregates="ag"),
        provider("a0", VCPU, below="a"),
        provider("b"),
        provider("b0", VCPU, below="b", aggregates="ag"),
    )
    assert found(table, asking(group(amounts=VCPU, member_of=["ag"]))) == [(("a0",),), (("b0",),)]
    assert found(table, asking(group("1", VCPU, member_of=["ag"]))) == [(("b0",),)]
    assert found(table, asking(group(amounts=VCPU, outside_of="ag"))) == []
    assert found(table, asking(group("1", VCPU, outside_of="ag"))) == [(("a0",),)]


def test_all_aggregates_are_of_one_provider() -> None:
    """The aggregates of all `member_of` sets must belong to one provider."""
    table = forest(
        provider("a", {}, aggregates="x"), provider("a0", VCPU, below="a", aggregates="y")
    )
    assert found(table, asking(group(amounts=VCPU, member_of=["x", "y"]))) == []
    assert found(table, asking(group(amounts=VCPU, member_of=["x y"]))) != []


def test_in_tree_names_any_provider_of_the_tree() -> None:
    """`in_tree` may name any provider of the tree."""
    table = forest(*NUMA, provider("flat", BOTH))
    assert len(found(table, asking(group(amounts=VCPU, in_tree="nic0")))) == 2


def test_sharing() -> None:
    """A sharing provider serves its own tree and trees with a member in its aggregates."""
    table = forest(
        provider("a", VCPU, aggregates="ag"),
        provider("b"),
        provider("b0", VCPU, below="b", aggregates="ag"),
        provider("c", VCPU),
        provider("nfs", DISK, traits=SHARES, aggregates="ag"),
        provider("san", DISK, aggregates="ag"),
    )
    assert found(table, asking(group(amounts=BOTH))) == [(("a", "nfs"),), (("b0", "nfs"),)]
    assert found(table, asking(group("1", VCPU), group("2", DISK))) == [
        (("a",), ("nfs",)),
        (("b0",), ("nfs",)),
    ]


def test_a_sharing_provider_by_itself_is_listed_once() -> None:
    """A candidate of sharing providers only is listed once for all trees."""
    table = forest(
        *(provider(f"h{n}", VCPU, aggregates="ag") for n in range(5)),
        provider("nfs", DISK, traits=SHARES, aggregates="ag"),
        provider("san", DISK, traits=SHARES, aggregates="ag"),
    )
    assert found(table, asking(group(amounts=DISK))) == [(("nfs",),), (("san",),)]
    both = asking(group("1", DISK), group("2", {"DISK_GB": 1}), isolates=True)
    assert found(table, both) == [(("nfs",), ("san",)), (("san",), ("nfs",))]


def test_a_sharing_provider_must_be_a_member_itself() -> None:
    """A sharing provider must itself meet the aggregates of the unsuffixed group."""
    table = forest(
        provider("a", VCPU, aggregates="ag blue"),
        provider("nfs", DISK, traits=SHARES, aggregates="ag"),
        provider("san", DISK, traits=SHARES, aggregates="ag blue"),
    )
    assert found(table, asking(group(amounts=BOTH, member_of=["blue"]))) == [(("a", "san"),)]
    assert found(table, asking(group(amounts=BOTH, outside_of="blue"))) == []


def test_in_tree_keeps_sharing_providers_out_of_the_unsuffixed_group() -> None:
    """`in_tree` excludes sharing providers from the unsuffixed group.

    In a suffixed group it selects the provider itself.
    """
    table = forest(
        provider("a", VCPU, aggregates="ag"),
        provider("nfs", DISK, traits=SHARES, aggregates="ag"),
    )
    assert found(table, asking(group(amounts=BOTH, in_tree="a"))) == []
    one = asking(group("1", VCPU), group("2", DISK, in_tree="nfs"))
    assert found(table, one) == [(("a",), ("nfs",))]


def test_root_required() -> None:
    """The root of the tree must have the root traits, whichever providers are used."""
    table = forest(*NUMA, provider("flat", BOTH, traits="OLD"))
    assert found(table, asking(group(amounts=BOTH), root="!HOST")) == [(("flat",),)]
    assert len(found(table, asking(group(amounts=BOTH), root="HOST"))) == 2
    assert found(table, asking(group(amounts=BOTH), root="CELL")) == []


def test_isolate() -> None:
    """Isolated suffixed groups use different providers; the unsuffixed group may use any."""
    table = forest(provider("a", {"VCPU": 4}), provider("a0", {"VCPU": 4}, below="a"))
    two = (group("1", VCPU), group("2", VCPU))
    assert len(found(table, asking(*two))) == 4
    assert found(table, asking(*two, isolates=True)) == [(("a",), ("a0",)), (("a0",), ("a",))]
    assert len(found(table, asking(group(amounts=VCPU), *two, isolates=True))) == 4


def test_isolate_counts_resourceless_groups() -> None:
    """A group without amounts needs a provider of its own, too."""
    table = forest(provider("a", VCPU, traits="X"), provider("a0", {}, below="a", traits="X"))
    ask = asking(group("1", VCPU), group("2", required=["X"]), isolates=True)
    assert found(table, ask) == [(("a",), ("a0",))]
    assert len(found(table, asking(group("1", VCPU), group("2", required=["X"])))) == 2


def test_a_resourceless_group_must_name_something() -> None:
    """A group without amounts needs required traits or aggregates, as in Placement."""
    table = forest(provider("a", VCPU, traits="X", aggregates="ag"))
    assert found(table, asking(group("1", VCPU), group("2"))) == []
    assert found(table, asking(group("1", VCPU), group("2", forbidden="Y"))) == []
    assert found(table, asking(group("1", VCPU), group("2", member_of=["ag"]))) != []


def test_in_tree_of_a_resourceless_group_must_only_be_known() -> None:
    """`in_tree` of a group without amounts must exist and restricts nothing, as in Placement."""
    table = forest(provider("a", VCPU, traits="X"), provider("b"))
    named = group("2", required=["X"], in_tree="b")
    assert found(table, asking(group("1", VCPU), named)) == [(("a",), ("a",))]
    assert found(table, asking(group("1", VCPU), group("2", required=["X"], in_tree="x"))) == []


def test_same_subtree() -> None:
    """In a subtree one provider is the ancestor of all others, or the only one."""
    table = forest(*NUMA)
    cpu, nic = group("1", VCPU), group("2", {"NIC": 1})
    assert len(found(table, asking(cpu, nic))) == 4
    assert found(table, asking(cpu, nic, same_subtree=["1 2"])) == [
        (("cell0",), ("nic0",)),
        (("cell1",), ("nic1",)),
    ]
    two = (group("2", {"NIC": 1}), group("3", {"NIC": 1}))
    assert found(table, asking(*two, same_subtree=["2 3"])) == [
        (("nic0",), ("nic0",)),
        (("nic1",), ("nic1",)),
    ]
    cell = group("4", required=["CELL"])
    assert len(found(table, asking(*two, cell, same_subtree=["2 3 4"]))) == 2
    assert (
        len(found(table, asking(*two, group("4", required=["HOST"]), same_subtree=["2 3 4"]))) == 4
    )


def test_a_sharing_provider_is_in_no_subtree_of_another_tree() -> None:
    """A sharing provider is not in the subtree of another tree."""
    table = forest(
        provider("a", BOTH, aggregates="ag"),
        provider("nfs", DISK, traits=SHARES, aggregates="ag"),
    )
    two = (group("1", VCPU), group("2", DISK))
    assert len(found(table, asking(*two))) == 2
    assert found(table, asking(*two, same_subtree=["1 2"])) == [(("a",), ("a",))]


def test_amounts_of_one_provider_are_summed() -> None:
    """The summed amounts of one provider must fit its capacity and `max_unit`."""
    roomy = provider("a", {"VCPU": 4}, used={"VCPU": 1})
    table = forest(roomy, provider("a0", {"NIC": 1}, below="a"))
    ask = asking(group(amounts={"VCPU": 1}), group("1", {"VCPU": 2}))
    assert find_candidates(table, ask).composed[0].amounts == (
        (table.row_of(uuid_of("a")), (("VCPU", 3),)),
    )
    assert found(table, asking(group(amounts={"VCPU": 2}), group("1", {"VCPU": 2}))) == []
    small = provider("b", {"VCPU": Inventory(total=9, max_unit=2)})
    assert found(forest(small), ask) == []
    assert len(found(forest(roomy), ask)) == 1


def test_old_clients_see_no_trees() -> None:
    """Clients unaware of trees get no candidates with several providers of one tree."""
    table = forest(
        *NUMA,
        provider("a", VCPU, aggregates="ag"),
        provider("nfs", DISK, traits=SHARES, aggregates="ag"),
    )
    ask = asking(group(amounts=BOTH), is_nested_aware=False)
    assert found(table, ask) == [(("a", "nfs"),)]
    assert len(found(table, asking(group(amounts=VCPU), is_nested_aware=False))) == 3


def test_start_rotates_the_trees() -> None:
    """With a limit, `start` determines the tree at which the list begins."""
    table = forest(*(provider(f"h{n}", VCPU) for n in range(4)))
    ask = asking(group(amounts=VCPU), limit=2)
    assert [found(table, ask, start) for start in (0, 1, 3, 4)] == [
        [(("h0",),), (("h1",),)],
        [(("h1",),), (("h2",),)],
        [(("h0",),), (("h3",),)],
        [(("h0",),), (("h1",),)],
    ]


def test_rows_alone_and_trees_take_turns() -> None:
    """A limit takes one candidate of each tree before a second one of any tree."""
    table = forest(provider("a", VCPU), *NUMA, provider("b", VCPU), provider("c", VCPU))
    ask = group(amounts=VCPU)
    assert found(table, asking(ask, limit=2)) == [(("a",),), (("cell0",),)]
    assert found(table, asking(ask, limit=3)) == [(("a",),), (("b",),), (("cell0",),)]
    assert len(found(table, asking(ask, limit=5))) == 5


def test_without_a_limit_there_is_still_one() -> None:
    """Without a limit in the query `candidates_max` applies."""
    table = forest(*(provider(f"h{n}", VCPU) for n in range(4)))
    assert find_candidates(table, asking(group(amounts=VCPU)), candidates_max=3).alone.size == 3
