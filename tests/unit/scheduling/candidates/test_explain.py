"""Tests for the steps that explain what each constraint of a query leaves."""

from berth.domain.inventory.resources import Inventory
from berth.scheduling.candidates.explain import ExplainStep, Remaining, explain
from berth.scheduling.candidates.masks import ConstraintKind
from berth.scheduling.candidates.query import CandidateQuery
from berth.tables.provider.providers import ProviderTable
from berth.tables.provider.sharing import SHARES
from tests.unit.scheduling.candidates.providers import asking, forest, group, provider

TABLE = forest(
    provider("a", {"VCPU": 4}, traits="X", aggregates="ag"),
    provider("a0", {"DISK_GB": 4}, below="a"),
    provider("b", {"VCPU": 4, "DISK_GB": 4}, used={"VCPU": 4}),
    provider("c", {"VCPU": Inventory(total=4, max_unit=1)}, aggregates="ag"),
    provider("d"),
)

StepPairs = tuple[str | None, ConstraintKind, tuple[int, int], tuple[int, int]]


def steps_of(table: ProviderTable, query: CandidateQuery) -> list[StepPairs]:
    """Return the steps, with providers and trees as pairs."""

    def pair(left: Remaining) -> tuple[int, int]:
        return left.providers, left.trees

    def as_pairs(step: ExplainStep) -> StepPairs:
        return step.group, step.constraint, pair(step.before), pair(step.after)

    return [as_pairs(step) for step in explain(table, query).steps]


def test_a_group_is_told_step_by_step() -> None:
    """A suffixed group has steps for aggregates and traits, then inventory, units and room."""
    ask = asking(group("1", {"VCPU": 2}, member_of=["ag"], required=["X"]))
    assert steps_of(TABLE, ask) == [
        ("1", ConstraintKind.MEMBER_OF, (5, 4), (2, 2)),
        ("1", ConstraintKind.REQUIRED, (2, 2), (1, 1)),
        ("1", ConstraintKind.INVENTORY, (1, 1), (1, 1)),
        ("1", ConstraintKind.UNITS, (1, 1), (1, 1)),
        ("1", ConstraintKind.ROOM, (1, 1), (1, 1)),
        (None, ConstraintKind.TOGETHER, (1, 1), (1, 1)),
        (None, ConstraintKind.COMBINATION, (1, 1), (1, 1)),
    ]


def test_units_and_room_are_told_apart() -> None:
    """Units and room are separate steps, and each removes the providers that fail it."""
    steps = steps_of(TABLE, asking(group(amounts={"VCPU": 2})))
    assert [after for _, _, _, after in steps[:3]] == [(3, 3), (2, 2), (1, 1)]


def test_each_class_of_the_unsuffixed_group_begins_anew() -> None:
    """Each class of the unsuffixed group starts again with the fleet; traits follow the classes."""
    steps = steps_of(TABLE, asking(group(amounts={"VCPU": 2, "DISK_GB": 1}, required=["X"])))
    assert [(constraint, before) for _, constraint, before, _ in steps] == [
        (ConstraintKind.INVENTORY, (5, 4)),
        (ConstraintKind.UNITS, (3, 3)),
        (ConstraintKind.ROOM, (2, 2)),
        (ConstraintKind.INVENTORY, (5, 4)),
        (ConstraintKind.UNITS, (2, 2)),
        (ConstraintKind.ROOM, (2, 2)),
        (ConstraintKind.REQUIRED, (2, 1)),
        (ConstraintKind.TOGETHER, (3, 2)),
        (ConstraintKind.COMBINATION, (2, 1)),
    ]


def test_the_root_is_asked_of_what_is_left() -> None:
    """The root's traits are checked before the groups are combined."""
    steps = steps_of(TABLE, asking(group(amounts={"VCPU": 1}), root="X !Y"))
    assert steps[-3:] == [
        (None, ConstraintKind.ROOT, (2, 2), (1, 1)),
        (None, ConstraintKind.TOGETHER, (1, 1), (1, 1)),
        (None, ConstraintKind.COMBINATION, (1, 1), (1, 1)),
    ]


def test_the_whole_begins_with_what_any_group_leaves() -> None:
    """The combined steps start with the providers that any group leaves."""
    full = steps_of(TABLE, asking(group("1", {"VCPU": 5})))
    assert full[-3:] == [
        ("1", ConstraintKind.ROOM, (0, 0), (0, 0)),
        (None, ConstraintKind.TOGETHER, (0, 0), (0, 0)),
        (None, ConstraintKind.COMBINATION, (0, 0), (0, 0)),
    ]
    some = steps_of(TABLE, asking(group("1", {"VCPU": 5}), group("2", {"DISK_GB": 1}), root="X"))
    assert some[-3:] == [
        (None, ConstraintKind.ROOT, (2, 2), (1, 1)),
        (None, ConstraintKind.TOGETHER, (1, 1), (0, 0)),
        (None, ConstraintKind.COMBINATION, (0, 0), (0, 0)),
    ]


def test_the_combination_is_searched() -> None:
    """The last step searches the tree for a combination of all groups."""
    two = (group("1", {"VCPU": 3}), group("2", {"VCPU": 3}))
    explanation = explain(TABLE, asking(*two))
    last = explanation.ends_at
    assert last is not None
    assert (last.constraint, last.before.trees, last.after) == (
        ConstraintKind.COMBINATION,
        1,
        Remaining(0, 0),
    )
    assert explain(TABLE, asking(*two[:1])).ends_at is None


def test_an_unknown_name_ends_it_there() -> None:
    """`ends_at` is the first step that leaves nothing."""
    ends = explain(TABLE, asking(group("1", {"VCPU": 1}, in_tree="x"))).ends_at
    assert ends is not None
    assert (ends.group, ends.constraint) == ("1", ConstraintKind.IN_TREE)
    ends = explain(TABLE, asking(group("1", {"GOLD": 1}))).ends_at
    assert ends is not None
    assert (ends.constraint, ends.names) == (ConstraintKind.INVENTORY, ("GOLD",))
    ends = explain(TABLE, asking(group("1", {"VCPU": 1}), group("2"))).ends_at
    assert ends is not None
    assert (ends.group, ends.constraint) == ("2", ConstraintKind.NAMED)


def test_trees_with_which_providers_share_count() -> None:
    """A sharing provider counts as one provider and once for each tree that it serves."""
    table = forest(
        provider("a", {"VCPU": 1}, aggregates="ag"),
        provider("b", {"VCPU": 1}, aggregates="ag"),
        provider("nfs", {"DISK_GB": 1}, traits=SHARES, aggregates="ag"),
    )
    steps = steps_of(table, asking(group("1", {"DISK_GB": 1})))
    assert steps[-1] == (None, ConstraintKind.COMBINATION, (1, 3), (1, 3))
    both = steps_of(table, asking(group(amounts={"VCPU": 1, "DISK_GB": 1})))
    assert both[-1] == (None, ConstraintKind.COMBINATION, (3, 2), (3, 2))
