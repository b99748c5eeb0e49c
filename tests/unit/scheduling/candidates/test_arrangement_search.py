"""The search of one anchor, with constraints of its own."""

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
    """No row twice."""
    return [CapacityConstraint([[(0, 1)] for _ in order], lambda _row: [1], 0)]


def test_without_rules_everything_goes() -> None:
    """Every step is an arrangement, the last slot the quickest."""
    steps = Steps(1)
    found = list(arrangements(THREE, None, steps))
    assert found == list(product(*THREE))
    assert steps.count == len(found)


def test_rows_are_told_in_the_order_of_the_query() -> None:
    """However the search orders the slots."""
    found = list(arrangements(THREE, apart, Steps(1)))
    right = [one for one in product(*THREE) if len(set(one)) == len(one)]
    assert sorted(found) == right
    assert len(found) == len(set(found))


def test_nothing_is_done_before_it_is_asked_for() -> None:
    """The first arrangement costs only the steps that lead to it."""
    steps = Steps(1)
    search = arrangements([list(range(1000))] * 3, apart, steps)
    assert steps.count == 0
    assert next(search) == (0, 1, 2)
    assert steps.count <= 6


def test_a_dead_end_is_entered_once() -> None:
    """Equivalent rows lead to the same dead end."""

    class Never(CapacityConstraint):
        """Lets no row give the last slot."""

        def allows(self, depth: int, row: int) -> bool:
            """Tell whether there is room left, and it is not the last slot."""
            return depth < 3 and super().allows(depth, row)

        def narrow(self, depth: int, open_rows: OpenRows) -> bool:
            """Know nothing."""
            return depth >= 0

    def rules(order: Sequence[int], _choices: RowsBySlot) -> list[Constraint]:
        return [Never([[(0, 1)] for _ in order], lambda _row: [1])]

    steps = Steps(1)
    found: list[Arrangement] = list(arrangements([list(range(20))] * 4, rules, steps))
    assert not found
    assert steps.count <= 4 * 20 + 40


def test_no_choice_is_no_arrangement() -> None:
    """A slot without any choice leaves nothing."""
    assert not list(arrangements([[1], []], None, Steps(1)))
    assert not list(arrangements([[1], []], apart, Steps(1)))
