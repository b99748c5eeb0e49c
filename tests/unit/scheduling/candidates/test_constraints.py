"""The constraints between chosen providers, each on its own."""

import numpy as np
import pytest

from berth.scheduling.candidates.constraint_builder import TreeColumns, later_bits, subtree_of
from berth.scheduling.candidates.constraints import (
    Constraint,
    NonSharingRequired,
    OnePerTree,
    TraitCoverage,
)
from berth.scheduling.candidates.lookahead import OpenRows

FOREST = TreeColumns(
    np.array([-1, 0, 0, 1, -1, 4, -1, -1], dtype=np.int32),
    np.array([0, 0, 0, 0, 4, 4, 6, 7], dtype=np.int32),
)
"""0 is above 1 and 2, 3 is below 1, and 5 below 4; 6 and 7 are by themselves."""


def left_of(constraint: Constraint, choices: list[list[int]], *rows: int) -> list[set[int]] | None:
    """The rows that may still give each slot after the first ones were given; None: too few."""
    open_rows = OpenRows(choices)
    for depth, row in enumerate(rows):
        constraint.take(depth, row)
    is_enough = constraint.narrow(len(rows), open_rows)
    for depth in range(len(rows) - 1, -1, -1):
        constraint.release(depth, rows[depth])
    if not is_enough:
        return None
    return [
        {row for row in mine if open_rows.bit_of[row] & bits}
        for mine, bits in zip(choices, open_rows.open, strict=True)
    ][len(rows) :]


def chain_of(constraint: Constraint, *rows: int) -> bool:
    """Whether the rows may give the slots one after another; nothing stays taken."""
    taken = 0
    for depth, row in enumerate(rows):
        if not constraint.allows(depth, row):
            break
        constraint.take(depth, row)
        taken += 1
    for depth in range(taken - 1, -1, -1):
        constraint.release(depth, rows[depth])
    return taken == len(rows)


def test_coverage() -> None:
    """What the rest could still cover may be left open, no more; other slots do not count."""
    bits = {1: 0b01, 2: 0b10, 3: 0b00}
    choices = [[1, 2, 3], [9], [1, 2]]
    depths = [True, False, True]
    rule = TraitCoverage(depths, later_bits(depths, choices, bits), bits, 0b11)
    assert chain_of(rule, 1, 9, 2)
    assert not chain_of(rule, 1, 9, 1)
    assert not chain_of(rule, 3, 9, 2)
    assert rule.allows(0, 3)
    choices = [[1, 3], [9], [1]]
    rule = TraitCoverage(depths, later_bits(depths, choices, bits), bits, 0b11)
    assert not rule.allows(0, 1)


def test_subtree() -> None:
    """One row is above all others or is the only one: 0 is above 1 and 2, and 3 is below 1."""
    choices = [[0, 1, 2, 3], [1, 2, 3], [7]]
    rule = subtree_of([True, True, False], choices, FOREST)
    right = {(0, 1), (0, 2), (0, 3), (1, 1), (1, 3), (2, 2), (3, 1), (3, 3)}
    assert {(a, b) for a in choices[0] for b in choices[1] if chain_of(rule, a, b, 7)} == right


def test_a_top_that_serves_not_all_is_none() -> None:
    """A row without a choice below it for some slot cannot be used at all."""
    rule = subtree_of([True, True], [[1, 2], [3]], FOREST)
    assert rule.allows(0, 1)
    assert not rule.allows(0, 2)


@pytest.mark.parametrize("others", [0, 50])
def test_trees_without_a_choice_for_each_slot_are_out(others: int) -> None:
    """A sharer of many trees has few others in its own tree, however many share."""
    alone = np.arange(others, dtype=np.int32) + FOREST.root.size
    parent = np.concatenate((FOREST.parent, np.full(others, -1, dtype=np.int32)))
    forest = TreeColumns(parent, np.concatenate((FOREST.root, alone)))
    sharers: list[int] = alone.tolist()
    rule = subtree_of([True, True], [[1, 5, 6, *sharers], [3, 7]], forest)
    assert [row for row in (1, 5, 6, *sharers) if rule.allows(0, row)] == [1]
    rule = subtree_of([True, True], [[1, 5, 6, *sharers], [3, 4]], forest)
    assert [row for row in (1, 5, 6, *sharers) if rule.allows(0, row)] == [1, 5]


def test_looking_ahead_in_a_subtree() -> None:
    """Only what is below a possible top stays, and below each each slot needs a row, its own."""
    choices = [[0, 1, 2], [1, 2, 3], [2, 3], [7]]
    depths = [True, True, True, False]
    rule = subtree_of(depths, choices, FOREST)
    assert left_of(rule, choices, 1) == [{1, 3}, {3}, {7}]
    assert left_of(rule, choices, 2) == [{2}, {2}, {7}]
    assert left_of(rule, choices, 0) == [{1, 2, 3}, {2, 3}, {7}]
    assert left_of(rule, choices) == [{0, 1, 2}, {1, 2, 3}, {2, 3}, {7}]
    assert left_of(rule, choices, 0, 1, 2) == [{7}]
    apart = subtree_of(depths, choices, FOREST, are_apart=True)
    two = [[1, 2], [1, 2], [1, 2]]
    assert left_of(subtree_of([True] * 3, two, FOREST), two) == [{1, 2}] * 3
    assert left_of(subtree_of([True] * 3, two, FOREST, are_apart=True), two) is None
    assert left_of(apart, choices) == [{0, 1, 2}, {1, 2, 3}, {2, 3}, {7}]


def test_looking_ahead_at_traits() -> None:
    """As many sets as the slots to come can cover, each of those by some of them."""
    bits = {1: 0b001, 2: 0b010, 3: 0b000, 4: 0b100}
    choices = [[3], [1, 2], [9], [1, 4]]
    depths = [True, True, False, True]
    rule = TraitCoverage(depths, later_bits(depths, choices, bits), bits, 0b111)
    assert left_of(rule, choices, 3) is None
    rule = TraitCoverage(depths, later_bits(depths, choices, bits), bits, 0b110)
    assert left_of(rule, choices, 3) == [{1, 2}, {9}, {1, 4}]
    assert left_of(rule, choices, 3, 1) is None


def test_looking_ahead_in_trees_of_one() -> None:
    """A chosen row closes its tree to others, except for slots without amounts."""
    rule = OnePerTree([True, True, False], {1: 0, 2: 0, 5: 5}.__getitem__)
    choices = [[1, 2], [1, 2, 5], [2]]
    assert left_of(rule, choices, 1) == [{1, 5}, {2}]
    assert left_of(rule, [[1], [2], [2]], 1) is None


def test_one_of_tree() -> None:
    """One provider of a tree may give several slots, two may not; who gives nothing is free."""
    rule = OnePerTree([True, True, False], {1: 0, 2: 0, 5: 5}.__getitem__)
    assert chain_of(rule, 1, 1, 2)
    assert chain_of(rule, 1, 5, 2)
    assert not chain_of(rule, 1, 2, 1)


def test_belonging() -> None:
    """Not all rows share."""
    rule = NonSharingRequired([True, False], frozenset({8, 9}))
    assert chain_of(rule, 8, 1)
    assert chain_of(rule, 1, 9)
    assert not chain_of(rule, 8, 9)


def test_what_a_rule_forgets() -> None:
    """After all releases a constraint is as before, and equal states allow the same rows."""
    rule = NonSharingRequired([True, True], frozenset({8}))
    start = rule.state(0, lambda row: row)
    rule.take(0, 8)
    assert rule.state(1, lambda row: row) == start
    rule.take(1, 1)
    assert rule.state(2, lambda row: row) != start
    rule.release(1, 1)
    rule.release(0, 8)
    assert rule.state(0, lambda row: row) == start
