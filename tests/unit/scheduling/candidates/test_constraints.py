"""The rules about providers that are chosen together, by themselves."""

import numpy as np

from berth.scheduling.candidates.constraints import Belonging, Constraint, Coverage, OneOfTree
from berth.scheduling.candidates.rules import later_bits, subtree_of


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
    rule = Coverage(depths, later_bits(depths, choices, bits), bits, 0b11)
    assert chain_of(rule, 1, 9, 2)
    assert not chain_of(rule, 1, 9, 1)
    assert not chain_of(rule, 3, 9, 2)
    assert rule.allows(0, 3)
    choices = [[1, 3], [9], [1]]
    rule = Coverage(depths, later_bits(depths, choices, bits), bits, 0b11)
    assert not rule.allows(0, 1)


def test_subtree() -> None:
    """One row is above all others or is the only one: 0 is above 1 and 2, and 3 is below 1."""
    parent = np.array([-1, 0, 0, 1], dtype=np.int32)
    choices = [[0, 1, 2, 3], [1, 2, 3], [7]]
    rule = subtree_of([True, True, False], choices, parent)
    right = {(0, 1), (0, 2), (0, 3), (1, 1), (1, 3), (2, 2), (3, 1), (3, 3)}
    assert {(a, b) for a in choices[0] for b in choices[1] if chain_of(rule, a, b, 7)} == right


def test_a_top_that_serves_not_all_is_none() -> None:
    """A row without a choice below it for some slot cannot be used at all."""
    parent = np.array([-1, 0, 0, 1], dtype=np.int32)
    rule = subtree_of([True, True], [[1, 2], [3]], parent)
    assert rule.allows(0, 1)
    assert not rule.allows(0, 2)


def test_one_of_tree() -> None:
    """One provider of a tree may give several slots, two may not; who gives nothing is free."""
    rule = OneOfTree([True, True, False], {1: 0, 2: 0, 5: 5}.__getitem__)
    assert chain_of(rule, 1, 1, 2)
    assert chain_of(rule, 1, 5, 2)
    assert not chain_of(rule, 1, 2, 1)


def test_belonging() -> None:
    """Not all rows share."""
    rule = Belonging([True, False], frozenset({8, 9}))
    assert chain_of(rule, 8, 1)
    assert chain_of(rule, 1, 9)
    assert not chain_of(rule, 8, 9)


def test_what_a_rule_forgets() -> None:
    """After all is released a rule is as it was, and its states tell what it needs to know."""
    rule = Belonging([True, True], frozenset({8}))
    start = rule.state(0, lambda row: row)
    rule.take(0, 8)
    assert rule.state(1, lambda row: row) == start
    rule.take(1, 1)
    assert rule.state(2, lambda row: row) != start
    rule.release(1, 1)
    rule.release(0, 8)
    assert rule.state(0, lambda row: row) == start
