"""Tests for the masks of providers that could serve each slot by themselves."""

import numpy as np

from berth.scheduling.candidates.masks import ConstraintKind, filters_of, masks_of
from berth.tables.columnar.bitsets import Mask
from berth.tables.provider.providers import ProviderTable
from berth.tables.provider.sharing import SHARES
from tests.unit.scheduling.candidates.providers import asking, forest, group, provider

TABLE = forest(
    provider("a", {"VCPU": 4}, traits="X", aggregates="ag"),
    provider("a0", {"VCPU": 1, "DISK_GB": 4}, below="a", traits="Y"),
    provider("b", {"VCPU": 4, "DISK_GB": 4}),
    provider("s", {"DISK_GB": 9}, traits=SHARES, aggregates="ag"),
)


def names(mask: Mask, table: ProviderTable = TABLE) -> str:
    """Return the names of the providers in a mask."""
    return " ".join(sorted(table.base_record(row).name for row in np.flatnonzero(mask).tolist()))


def test_a_slot_for_each_class_of_the_unsuffixed_group() -> None:
    """A suffixed group is one slot, and each class of the unsuffixed group is one slot."""
    query = asking(group("1", {"VCPU": 1, "DISK_GB": 1}), group(amounts={"VCPU": 2, "DISK_GB": 1}))
    slots = masks_of(TABLE, query).slots
    assert [(slot.group, slot.classes, slot.is_single) for slot in slots] == [
        (0, ("VCPU", "DISK_GB"), True),
        (1, ("VCPU",), False),
        (1, ("DISK_GB",), False),
    ]
    assert [names(slot.own) for slot in slots] == ["a0 b", "a b", "a0 b s"]


def test_traits_of_one_class_are_those_of_its_provider() -> None:
    """Required traits of several classes may be met together, those of one class may not."""
    one = masks_of(TABLE, asking(group(amounts={"VCPU": 1}, required=["X Y"])))
    assert (names(one.slots[0].own), one.together) == ("a a0", ())
    two = masks_of(TABLE, asking(group(amounts={"VCPU": 1, "DISK_GB": 1}, required=["X Y"])))
    assert [names(slot.own) for slot in two.slots] == ["a a0 b", "a0 b s"]
    assert [names(mask) for mask in two.together] == ["a a0"]


def test_what_is_shared_is_asked_more() -> None:
    """Providers that share with another tree must meet the aggregates and `in_tree` themselves."""
    query = asking(group(amounts={"DISK_GB": 1}, member_of=["ag"], outside_of="other"))
    slot = masks_of(TABLE, query).slots[0]
    assert (names(slot.own), names(slot.shared)) == ("a0 s", "s")
    assert slot.shared_with is not None
    assert names(slot.shared_with) == "a a0 b s"
    tied = masks_of(TABLE, asking(group(amounts={"DISK_GB": 1}, in_tree="s"))).slots[0]
    assert (names(tied.own), names(tied.shared)) == ("s", "")
    single = masks_of(TABLE, asking(group("1", {"DISK_GB": 1}, in_tree="s"))).slots[0]
    assert (names(single.own), names(single.shared)) == ("s", "s")


def test_filters_come_in_one_order() -> None:
    """The filters of a group come in a fixed order, also for sharing providers."""
    asked = group(
        "1", {"VCPU": 1}, required=["X", "Y Z"], forbidden="V", member_of=["ag"], in_tree="a"
    )
    filters = list(filters_of(TABLE, asked))
    assert [one.constraint for one in filters] == [
        ConstraintKind.IN_TREE,
        ConstraintKind.MEMBER_OF,
        ConstraintKind.REQUIRED,
        ConstraintKind.REQUIRED,
        ConstraintKind.FORBIDDEN,
    ]
    assert [one.names for one in filters[2:]] == [("X",), ("Y", "Z"), ("V",)]
    assert len(list(filters_of(TABLE, asked, is_shared=True))) == len(filters)


def test_roots_are_asked_when_the_query_does() -> None:
    """Without root traits the mask of roots is None."""
    assert masks_of(TABLE, asking(group(amounts={"VCPU": 1}))).roots is None
    roots = masks_of(TABLE, asking(group(amounts={"VCPU": 1}), root="X !Y")).roots
    assert roots is not None
    assert names(roots) == "a"
