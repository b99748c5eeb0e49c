"""The arrangements of one anchor, one at a time: which provider gives which slot.

The search goes depth first, the slot with the fewest choices first, and undoes one step at a
time. What led to nothing is remembered, by what mattered to it: rows that look alike stand for
each other, so of many equal devices the search tries one. After dead ends it looks ahead before
it goes on, and begins again with the slots that were to blame if nothing is found for long. With
no rule about what is chosen together every step is an arrangement.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import product
from math import inf
from typing import Final

from berth.domain.errors import InvalidInputError
from berth.scheduling.candidates.constraints import Constraint
from berth.scheduling.candidates.lookahead import OpenRows


PATIENCE: Final = (30, 100, 300, 1000)
"""Dead ends after which the slots are put in another order, as long as nothing was found."""


LOOKS_AT_FIRST: Final = 0
"""Looks ahead before any dead end has paid for them."""


STEPS_AT_LEAST: Final = 50_000


STEPS_AN_ANCHOR: Final = 500


STEPS_A_CANDIDATE: Final = 200
"""What a query may take together, and for each of its anchors and of the candidates found."""


class TooManyWaysError(InvalidInputError):
    """So much was tried that nobody could wait for the answer; nothing is known of the rest."""

    def __init__(self, steps: int) -> None:
        super().__init__(
            "allocation_candidates",
            f"there are too many ways to arrange these groups: after {steps:,} steps it is not "
            "known which go together. Ask for fewer groups, a smaller limit or one tree.",
        )


class Steps:
    """How many choices were tried, over all anchors of a query.

    Attributes:
        count: choices that were tried.
        most: how many may be.
    """

    def __init__(self, anchors: int) -> None:
        """Start with none, for a query of so many anchors."""
        self.count = 0
        self.most = STEPS_AT_LEAST + STEPS_AN_ANCHOR * anchors

    def allow_more(self) -> None:
        """Let a candidate that was found pay for the next one."""
        self.most += STEPS_A_CANDIDATE

    def check(self) -> None:
        """Check that not too many were tried.

        Raises:
            TooManyWaysError: they were.
        """
        if self.count > self.most:
            raise TooManyWaysError(self.count)


Arrangement = tuple[int, ...]
"""A row for each slot, in the order of the query."""

RowsBySlot = Sequence[Sequence[int]]
"""Rows for each slot."""

MakeConstraints = Callable[[Sequence[int], RowsBySlot], list[Constraint]]
"""Makes the rules of one search, from places of slots and their choices, in its order."""


def arrangements(
    choices: RowsBySlot, make: MakeConstraints | None, steps: Steps
) -> Iterator[Arrangement]:
    """Yield each way to give all slots at one anchor, every one once.

    Args:
        choices: rows that could give each slot, in the order of the query.
        make: the rules about what is chosen together; None when there are none.
        steps: counts what is tried.

    Raises:
        TooManyWaysError: more was tried than may be.
    """
    if make is None:
        for arrangement in product(*choices):
            steps.count += 1
            yield arrangement
        return
    sizes = list(map(len, choices))
    order = sorted(range(len(sizes)), key=sizes.__getitem__)
    for patience in (*PATIENCE, inf):
        ordered = [choices[slot] for slot in order]
        search = _Search(ordered, make(order, ordered), steps)
        yield from search.run(order, patience)
        if not search.has_given_up:
            return
        blamed = dict(zip(order, search.blamed, strict=True))
        order.sort(key=lambda slot: (-blamed[slot], sizes[slot]))


class _Search:
    """A search through the choices of one anchor.

    Attributes:
        has_given_up: it was told to end before it had found anything, and did.
        blamed: by depth, how often it was among the slots that could not all be given.
    """

    def __init__(self, choices: RowsBySlot, constraints: list[Constraint], steps: Steps) -> None:
        self._choices = choices
        self._constraints = constraints
        self._steps = steps
        self._chosen = [0] * len(choices)
        self._rest: list[Iterator[int]] = [iter(rows) for rows in choices]
        self._is_fruitful = [False] * len(choices)
        self._barren: set[Hashable] = set()
        self._outlook: OpenRows | None = None
        self._is_ahead_known = False
        self._looks_left = LOOKS_AT_FIRST
        self.has_given_up = False
        self.blamed = [0] * len(choices)
        self._looks: dict[Hashable, int] = {}
        self._look_of: dict[int, int] = {}

    def run(self, order: Sequence[int], patience: float) -> Iterator[Arrangement]:
        """Yield the chosen rows, in the order of the query, whenever all slots have one.

        Args:
            order: the slots as the query has them, in the order of the search.
            patience: how many dead ends to remember before giving up, if nothing was found;
                infinity never gives up.
        """
        depth, last, is_found = 0, len(self._choices) - 1, False
        depths = [order.index(slot) for slot in range(len(order))]
        while True:
            row = self._next(depth)
            if row is None:
                if depth == 0:
                    return
                depth = self._back(depth)
                if len(self._barren) > patience and not is_found:
                    self.has_given_up = True
                    return
            elif depth == last:
                self._chosen[depth] = row
                self._is_fruitful[depth] = is_found = True
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
        self._is_ahead_known = False
        if (self._barren or self._looks_left) and self._is_barren(below):
            self._release(depth)
            return depth
        self._rest[below] = iter(self._open(below))
        self._is_fruitful[below] = False
        return below

    def _back(self, depth: int) -> int:
        """Go back to the slot before, remembering when nothing came of this one.

        Raises:
            TooManyWaysError: too much was tried.
        """
        self._steps.check()
        if not self._is_fruitful[depth]:
            self._barren.add(self._state(depth))
            self._looks_left += len(self._choices)
            self.blamed[depth] += 1
        above = depth - 1
        self._is_fruitful[above] |= self._is_fruitful[depth]
        self._release(above)
        return above

    def _is_barren(self, depth: int) -> bool:
        """Tell whether nothing can come of a depth, as far as it is known.

        Looking ahead costs more than a step, so dead ends pay for it.
        """
        state = self._state(depth)
        if state in self._barren:
            return True
        if self._looks_left:
            self._looks_left -= 1
            if not self._looks_ahead(depth):
                self._barren.add(state)
                self._looks_left += 1
                for at in range(depth, len(self.blamed)):
                    self.blamed[at] += 1
                return True
        return False

    def _looks_ahead(self, depth: int) -> bool:
        """Narrow what may still be chosen until nothing changes; tell whether that is enough."""
        outlook = self._outlook
        if outlook is None:
            outlook = self._outlook = OpenRows(self._choices)
        outlook.reopen()
        self._steps.count += len(self._choices) - depth
        before: list[int] = []
        while outlook.open != before:
            before = list(outlook.open)
            if not all(constraint.narrow(depth, outlook) for constraint in self._constraints):
                return False
        self._is_ahead_known = True
        return True

    def _open(self, depth: int) -> Sequence[int]:
        """Return the rows that may give a slot, as far as it is known."""
        outlook, rows = self._outlook, self._choices[depth]
        if outlook is None or not self._is_ahead_known or not outlook.is_narrowed(depth):
            return rows
        bits, bit_of = outlook.open[depth], outlook.bit_of
        return [row for row in rows if bit_of[row] & bits]

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
