"""Tests for finding the trees that could serve a query before they are searched."""

from berth.scheduling.candidates.anchors import anchors_of, contested
from berth.scheduling.candidates.masks import masks_of
from berth.scheduling.candidates.query import CandidateQuery
from berth.tables.provider.providers import ProviderTable
from berth.tables.provider.sharing import SHARES
from tests.unit.scheduling.candidates.providers import asking, forest, group, provider

VCPU = {"VCPU": 1}
DISK = {"DISK_GB": 1}


def named(table: ProviderTable, query: CandidateQuery) -> dict[str, bool]:
    """Return whether each anchor needs no search, by name."""
    anchors = anchors_of(table, query, masks_of(table, query))
    rows = zip(anchors.rows.tolist(), anchors.is_alone.tolist(), strict=True)
    return {table.base_record(row).name: is_alone for row, is_alone in rows}


def test_alone_are_roots_that_nobody_lends_to() -> None:
    """A root is alone unless it has children or a sharing provider could serve the query."""
    table = forest(
        provider("flat", VCPU),
        provider("tree", VCPU),
        provider("leaf", {}, below="tree"),
        provider("near", VCPU, aggregates="ag"),
        provider("nfs", {"DISK_GB": 4}, traits=SHARES, aggregates="ag"),
    )
    assert named(table, asking(group(amounts=VCPU))) == {"flat": True, "tree": False, "near": True}
    assert named(table, asking(group(amounts=DISK))) == {"near": False, "nfs": False}
    assert named(table, asking(group("1", VCPU), group("2", DISK))) == {"near": False}


def test_traits_between_them() -> None:
    """A tree is excluded if none of its usable providers has a required trait."""
    table = forest(
        provider("a", VCPU),
        provider("a0", DISK, below="a", traits="X"),
        provider("b", VCPU),
        provider("b0", DISK, below="b"),
        provider("b1", {}, below="b", traits="X"),
    )
    ask = asking(group(amounts={"VCPU": 1, "DISK_GB": 1}, required=["X"]))
    assert named(table, ask) == {"a": False}


def test_contested_classes() -> None:
    """Classes that several groups request are contested, with their total amounts."""
    query = asking(group(amounts={"VCPU": 2, "DISK_GB": 1}), group("1", {"VCPU": 3}))
    assert contested(query) == {"VCPU": 5}


def test_sums_of_a_tree() -> None:
    """A tree needs at least the sum of the groups' amounts, including what is shared with it."""
    table = forest(
        provider("a", {"VCPU": 3}),
        provider("b", {"VCPU": 2}),
        provider("b0", {"VCPU": 2}, below="b"),
        provider("c", {"VCPU": 2}, aggregates="ag"),
        provider("pool", {"VCPU": 2}, traits=SHARES, aggregates="ag"),
    )
    two = asking(group("1", {"VCPU": 2}), group("2", {"VCPU": 2}))
    assert named(table, two) == {"b": False, "c": False}


def test_as_many_providers_as_groups() -> None:
    """Isolated groups exclude trees with fewer usable providers than groups."""
    table = forest(
        provider("a", {"VCPU": 9}), provider("b", {"VCPU": 9}), provider("b0", VCPU, below="b")
    )
    two = (group("1", VCPU), group("2", VCPU))
    assert named(table, asking(*two, isolates=True)) == {"b": False}
    assert named(table, asking(*two)) == {"a": True, "b": False}
