"""Tests for the providers that could serve each slot at one anchor."""

import numpy as np

from berth.scheduling.candidates.masks import masks_of
from berth.scheduling.candidates.slot_choices import SlotChoices
from berth.tables.provider.sharing import SHARES
from tests.unit.scheduling.candidates.providers import asking, forest, group, provider, uuid_of


def test_own_first_then_shared() -> None:
    """Providers of the tree come first, then those that share with it."""
    table = forest(
        provider("nfs", {"DISK_GB": 9}, traits=SHARES, aggregates="ag"),
        provider("a", {"DISK_GB": 9}, aggregates="ag"),
        provider("b", {"VCPU": 1}, aggregates="bad"),
        provider("a0", {"VCPU": 1, "DISK_GB": 1}, below="a"),
        provider("b0", {"DISK_GB": 1}, below="b", aggregates="ag"),
    )
    query = asking(group(amounts={"VCPU": 1, "DISK_GB": 1}, outside_of="bad"))
    choices = SlotChoices(table, masks_of(table, query))
    rows = {name: table.row_of(uuid_of(name)) for name in ("nfs", "a", "a0", "b")}
    a, b = rows["a"], rows["b"]
    assert a is not None
    assert b is not None
    at_a = choices.at(a)
    assert [list(slot) for slot in at_a.choices] == [[rows["a0"]], [a, rows["a0"], rows["nfs"]]]
    assert at_a.shared == (frozenset(), frozenset({rows["nfs"]}))
    assert choices.at(b) == ([[], []], (frozenset(), frozenset()))


def test_anchors_with_the_same_sharing_providers_have_the_same_ones() -> None:
    """Sharing providers are listed for every tree they serve, including their own."""
    table = forest(
        provider("nfs", {"DISK_GB": 9}, traits=SHARES, aggregates="ag"),
        provider("san", {"DISK_GB": 9}, traits=SHARES, aggregates="ag"),
        provider("a", {"DISK_GB": 9}, aggregates="ag"),
        provider("b", {"DISK_GB": 9}),
    )
    choices = SlotChoices(table, masks_of(table, asking(group("1", {"DISK_GB": 1}))))
    shared = [choices.at(row).shared for row in range(4)]
    assert shared[0] == shared[1] == shared[2] == (frozenset({0, 1}),)
    assert shared[3] == (frozenset(),)


def test_the_first_of_each_slot() -> None:
    """`first_of` gives the first choice of each slot for several anchors."""
    table = forest(
        provider("a", {"VCPU": 1}),
        provider("b"),
        provider("b0", {"VCPU": 1, "DISK_GB": 1}, below="b"),
        provider("a0", {"VCPU": 1, "DISK_GB": 1}, below="a"),
    )
    query = asking(group("1", {"VCPU": 1}), group("2", {"DISK_GB": 1}))
    choices = SlotChoices(table, masks_of(table, query))
    assert choices.first_of(np.array([1, 0])) == [(2, 2), (0, 3)]
    assert choices.first_of(np.array([], dtype=np.intp)) == []
