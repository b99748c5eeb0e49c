"""Tests for the search of one anchor with given constraints."""

from collections.abc import Sequence
from itertools import product

from berth.scheduling.candidates.arrangement_search import (
    Arrangement,
    RowsBySlot,
    Steps,
    arrangements,
)
from berth.scheduling.candidates.capacity import CapacityConstraint
from berth.scheduling.candidates.constraints import Constraint
from berth.scheduling.candidates.lookahead import OpenRows

THREE = [[1, 2, 3], [2, 3], [1, 2, 3]]


def apart(order: Sequence[int], _choices: RowsBySlot) -> list[Constraint]:
    """Return a constraint that allows each row once."""
    return [CapacityConstraint([[(0, 1)] for _ in order], lambda _row: [1], 0)]


def test_without_rules_everything_goes() -> None:
    """Without constraints the search yields the product of all choices in one step each."""
    steps = Steps(1)
    found = list(arrangements(THREE, None, steps))
    assert found == list(product(*THREE))
    assert steps.count == len(found)


def test_rows_are_told_in_the_order_of_the_query() -> None:
    """Arrangements list the rows in the order of the query's slots."""
    found = list(arrangements(THREE, apart, Steps(1)))
    right = [one for one in product(*THREE) if len(set(one)) == len(one)]
    assert sorted(found) == right
    assert len(found) == len(set(found))


def test_nothing_is_done_before_it_is_asked_for() -> None:
    """Arrangements are searched lazily, so the first one costs only a few steps."""
    steps = Steps(1)
    search = arrangements([list(range(1000))] * 3, apart, steps)
    assert steps.count == 0
    assert next(search) == (0, 1, 2)
    assert steps.count <= 6


def test_a_dead_end_is_entered_once() -> None:
    """A dead end is not searched again for equivalent rows."""

    class Never(CapacityConstraint):
        """A constraint that allows no row for the last slot."""

        def allows(self, depth: int, row: int) -> bool:
            """Return whether the row has capacity and the slot is not the last."""
            return depth < 3 and super().allows(depth, row)

        def narrow(self, depth: int, open_rows: OpenRows) -> bool:
            """Narrow nothing; fail only at the first slot."""
            return depth >= 0

    def rules(order: Sequence[int], _choices: RowsBySlot) -> list[Constraint]:
        return [Never([[(0, 1)] for _ in order], lambda _row: [1])]

    steps = Steps(1)
    found: list[Arrangement] = list(arrangements([list(range(20))] * 4, rules, steps))
    assert not found
    assert steps.count <= 4 * 20 + 40


def test_no_choice_is_no_arrangement() -> None:
    """A slot without choices leaves no arrangement."""
    assert not list(arrangements([[1], []], None, Steps(1)))
    assert not list(arrangements([[1], []], apart, Steps(1)))
