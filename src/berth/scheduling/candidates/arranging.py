"""The arrangements of one anchor, one at a time: which provider gives which slot.

The search goes depth first, the slot with the fewest choices first, and undoes one step at a
time. What led to nothing is remembered, by what mattered to it: rows that look alike stand for
each other, so of many equal devices the search tries one. With no rule about what is chosen
together every step is an arrangement.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import product

from berth.scheduling.candidates.constraints import Constraint

Arrangement = tuple[int, ...]
"""A row for each slot, in the order of the query."""

Choices = Sequence[Sequence[int]]
"""Rows for each slot."""

MakeConstraints = Callable[[Sequence[int], Choices], list[Constraint]]
"""Makes the rules of one search, from places of slots and their choices, in its order."""


class Steps:
    """How many choices were tried, over all anchors of a query."""

    def __init__(self) -> None:
        self.count = 0


def arrangements(
    choices: Choices, make: MakeConstraints | None, steps: Steps
) -> Iterator[Arrangement]:
    """Yield each way to give all slots at one anchor, every one once.

    Args:
        choices: rows that could give each slot, in the order of the query.
        make: the rules about what is chosen together; None when there are none.
        steps: counts what is tried.
    """
    if make is None:
        for arrangement in product(*choices):
            steps.count += 1
            yield arrangement
        return
    sizes = list(map(len, choices))
    order = sorted(range(len(sizes)), key=sizes.__getitem__)
    ordered = [choices[slot] for slot in order]
    yield from _Search(ordered, make(order, ordered), steps).run(order)


class _Search:
    """A search through the choices of one anchor."""

    def __init__(self, choices: Choices, constraints: list[Constraint], steps: Steps) -> None:
        self._choices = choices
        self._constraints = constraints
        self._steps = steps
        self._chosen = [0] * len(choices)
        self._rest: list[Iterator[int]] = [iter(rows) for rows in choices]
        self._is_fruitful = [False] * len(choices)
        self._barren: set[Hashable] = set()
        self._looks: dict[Hashable, int] = {}
        self._look_of: dict[int, int] = {}

    def run(self, order: Sequence[int]) -> Iterator[Arrangement]:
        """Yield the chosen rows, in the order of the query, whenever all slots have one.

        Args:
            order: the slots as the query has them, in the order of the search.
        """
        depth, last = 0, len(self._choices) - 1
        depths = [order.index(slot) for slot in range(len(order))]
        while True:
            row = self._next(depth)
            if row is None:
                if depth == 0:
                    return
                depth = self._back(depth)
            elif depth == last:
                self._chosen[depth] = row
                self._is_fruitful[depth] = True
                yield tuple([self._chosen[at] for at in depths])
            else:
                depth = self._enter(depth, row)

    def _next(self, depth: int) -> int | None:
        """Return the next row that may give a slot; None when there is no other."""
        constraints = self._constraints
        for row in self._rest[depth]:
            self._steps.count += 1
            for constraint in constraints:
                if not constraint.allows(depth, row):
                    break
            else:
                return row
        return None

    def _enter(self, depth: int, row: int) -> int:
        """Choose a row and go on to the next slot, unless nothing can come of it."""
        self._chosen[depth] = row
        for constraint in self._constraints:
            constraint.take(depth, row)
        below = depth + 1
        if self._barren and self._is_barren(below):
            self._release(depth)
            return depth
        self._rest[below] = iter(self._choices[below])
        self._is_fruitful[below] = False
        return below

    def _back(self, depth: int) -> int:
        """Go back to the slot before, remembering when nothing came of this one."""
        if not self._is_fruitful[depth]:
            self._barren.add(self._state(depth))
        above = depth - 1
        self._is_fruitful[above] |= self._is_fruitful[depth]
        self._release(above)
        return above

    def _is_barren(self, depth: int) -> bool:
        """Tell whether nothing can come of a depth, as far as it is known."""
        state = self._state(depth)
        if state in self._barren:
            return True
        if any(constraint.is_hopeless(depth) for constraint in self._constraints):
            self._barren.add(state)
            return True
        return False

    def _release(self, depth: int) -> None:
        row = self._chosen[depth]
        for constraint in self._constraints:
            constraint.release(depth, row)

    def _state(self, depth: int) -> Hashable:
        """Return what of the slots before a depth matters to it and those after."""
        return depth, *(constraint.state(depth, self._look) for constraint in self._constraints)

    def _look(self, row: int) -> int:
        """Return the number of a row's look: the slots it could give, and what rules see of it."""
        number = self._look_of.get(row)
        if number is None:
            slots = tuple(row in rows for rows in self._choices)
            seen = (slots, *(constraint.look(row) for constraint in self._constraints))
            number = self._look_of[row] = self._looks.setdefault(seen, len(self._looks))
        return number
