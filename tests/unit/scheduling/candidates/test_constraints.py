"""Tests for the constraints between chosen providers."""

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
"""Rows 1 and 2 are below 0, 3 is below 1, and 5 is below 4; 6 and 7 are single."""


def left_of(constraint: Constraint, choices: list[list[int]], *rows: int) -> list[set[int]] | None:
    """Return the rows still possible for each slot after `rows`, or None if there are too few."""
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
    """Return whether the rows may serve the slots in order; all rows are released again."""
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
    """A choice may leave uncovered only the traits that later slots can cover."""
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
    """One row must be the ancestor of all others or the only row."""
    choices = [[0, 1, 2, 3], [1, 2, 3], [7]]
    rule = subtree_of([True, True, False], choices, FOREST)
    right = {(0, 1), (0, 2), (0, 3), (1, 1), (1, 3), (2, 2), (3, 1), (3, 3)}
    assert {(a, b) for a in choices[0] for b in choices[1] if chain_of(rule, a, b, 7)} == right


def test_a_top_that_serves_not_all_is_none() -> None:
    """A row without a choice for some slot below it is refused."""
    rule = subtree_of([True, True], [[1, 2], [3]], FOREST)
    assert rule.allows(0, 1)
    assert not rule.allows(0, 2)


@pytest.mark.parametrize("others", [0, 50])
def test_trees_without_a_choice_for_each_slot_are_out(others: int) -> None:
    """A row is refused if its tree has no choice for some slot."""
    alone = np.arange(others, dtype=np.int32) + FOREST.root.size
    parent = np.concatenate((FOREST.parent, np.full(others, -1, dtype=np.int32)))
    forest = TreeColumns(parent, np.concatenate((FOREST.root, alone)))
    sharing: list[int] = alone.tolist()
    rule = subtree_of([True, True], [[1, 5, 6, *sharing], [3, 7]], forest)
    assert [row for row in (1, 5, 6, *sharing) if rule.allows(0, row)] == [1]
    rule = subtree_of([True, True], [[1, 5, 6, *sharing], [3, 4]], forest)
    assert [row for row in (1, 5, 6, *sharing) if rule.allows(0, row)] == [1, 5]


def test_looking_ahead_in_a_subtree() -> None:
    """Only rows below a possible top stay open, with a separate row per slot if isolated."""
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
    """The slots to come must be able to cover the remaining traits, each with one of them."""
    bits = {1: 0b001, 2: 0b010, 3: 0b000, 4: 0b100}
    choices = [[3], [1, 2], [9], [1, 4]]
    depths = [True, True, False, True]
    rule = TraitCoverage(depths, later_bits(depths, choices, bits), bits, 0b111)
    assert left_of(rule, choices, 3) is None
    rule = TraitCoverage(depths, later_bits(depths, choices, bits), bits, 0b110)
    assert left_of(rule, choices, 3) == [{1, 2}, {9}, {1, 4}]
    assert left_of(rule, choices, 3, 1) is None


def test_looking_ahead_in_trees_of_one() -> None:
    """A chosen row closes its tree to other rows, except for slots without amounts."""
    rule = OnePerTree([True, True, False], {1: 0, 2: 0, 5: 5}.__getitem__)
    choices = [[1, 2], [1, 2, 5], [2]]
    assert left_of(rule, choices, 1) == [{1, 5}, {2}]
    assert left_of(rule, [[1], [2], [2]], 1) is None


def test_one_of_tree() -> None:
    """Two different rows of one tree may not serve slots with amounts."""
    rule = OnePerTree([True, True, False], {1: 0, 2: 0, 5: 5}.__getitem__)
    assert chain_of(rule, 1, 1, 2)
    assert chain_of(rule, 1, 5, 2)
    assert not chain_of(rule, 1, 2, 1)


def test_belonging() -> None:
    """At least one slot with amounts must be served by a row that does not share."""
    rule = NonSharingRequired([True, False], frozenset({8, 9}))
    assert chain_of(rule, 8, 1)
    assert chain_of(rule, 1, 9)
    assert not chain_of(rule, 8, 9)


def test_what_a_rule_forgets() -> None:
    """Releasing rows restores the state of a constraint."""
    rule = NonSharingRequired([True, True], frozenset({8}))
    start = rule.state(0, lambda row: row)
    rule.take(0, 8)
    assert rule.state(1, lambda row: row) == start
    rule.take(1, 1)
    assert rule.state(2, lambda row: row) != start
    rule.release(1, 1)
    rule.release(0, 8)
    assert rule.state(0, lambda row: row) == start
