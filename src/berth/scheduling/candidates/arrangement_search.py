"""The search for arrangements at one anchor: assignments of a provider to each slot.

The search is depth first, starts with the slot that has the fewest choices, and undoes one choice
at a time. It remembers dead ends by the part of the state that matters, in which equivalent rows
are interchangeable, so it tries only one of many equal devices. Once it has met dead ends, it also
looks ahead after a choice. If it has found nothing after many dead ends, it restarts with the slots
that were most often involved. Without constraints, every combination of choices is an arrangement.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import product
from math import inf
from typing import Final

from berth.domain.errors import InvalidInputError
from berth.scheduling.candidates.constraints import Constraint
from berth.scheduling.candidates.lookahead import OpenRows

PATIENCE: Final = (30, 100, 300, 1000)
"""The numbers of dead ends after which a search without a result restarts in another order."""

LOOKAHEADS_AT_FIRST: Final = 0
"""The number of look-aheads allowed before any dead end; easy queries do not need them."""

STEPS_AT_LEAST: Final = 50_000
"""The step budget of a query before any anchor or candidate is counted."""

STEPS_AN_ANCHOR: Final = 500
"""The steps that each anchor adds to the budget."""

STEPS_A_CANDIDATE: Final = 200
"""The steps that each candidate found adds to the budget."""


class TooManyWaysError(InvalidInputError):
    """The step budget was exhausted; it is unknown whether there are further candidates.

    Args:
        steps: the number of steps taken.
    """

    def __init__(self, steps: int) -> None:
        # The search raises an error rather than return a partial list, because the caller could not
        # tell "no more" from "not found yet".
        super().__init__(
            "allocation_candidates",
            f"there are too many ways to arrange these groups: after {steps:,} steps it is unknown "
            "whether there are more candidates. Request fewer groups, a smaller limit or a single"
            " tree.",
        )


class Steps:
    """The step budget of a query, over all of its anchors.

    Attributes:
        count: the number of choices that were tried.
        most: the maximum number of choices to try.
    """

    def __init__(self, anchors: int) -> None:
        """Start with no steps taken, for a query with this many anchors."""
        self.count = 0
        self.most = STEPS_AT_LEAST + STEPS_AN_ANCHOR * anchors

    def allow_more(self) -> None:
        """Increase the budget after a candidate was found."""
        self.most += STEPS_A_CANDIDATE

    def check(self) -> None:
        """Check the budget.

        Raises:
            TooManyWaysError: the budget is exhausted.
        """
        if self.count > self.most:
            raise TooManyWaysError(self.count)


Arrangement = tuple[int, ...]
"""The row that satisfies each slot, in the order of the query."""

RowsBySlot = Sequence[Sequence[int]]
"""The rows that could satisfy each slot."""

MakeConstraints = Callable[[Sequence[int], RowsBySlot], list[Constraint]]
"""Creates the constraints of one search from the positions of the slots and their choices, both in
the order of the search."""


def arrangements(
    choices: RowsBySlot, make: MakeConstraints | None, steps: Steps
) -> Iterator[Arrangement]:
    """Yield each arrangement at one anchor exactly once.

    Args:
        choices: the rows that could satisfy each slot, in the order of the query.
        make: creates the constraints between slots; None if there are none.
        steps: the budget of the query.

    Raises:
        TooManyWaysError: the budget is exhausted.
    """
    if make is None:
        for arrangement in product(*choices):
            steps.count += 1
            yield arrangement
        return
    sizes = list(map(len, choices))
    order = sorted(range(len(sizes)), key=sizes.__getitem__)
    # Restarts never repeat an arrangement, because only a search that found nothing is restarted.
    for patience in (*PATIENCE, inf):
        ordered = [choices[slot] for slot in order]
        search = _Search(ordered, make(order, ordered), steps)
        yield from search.run(order, patience)
        if not search.has_given_up:
            return
        blamed = dict(zip(order, search.blamed, strict=True))
        # Slots that were involved in many dead ends are decided first, so that the next search
        # fails early instead of deep in the tree.
        order.sort(key=lambda slot: (-blamed[slot], sizes[slot]))


class _Search:
    """One search through the choices of an anchor.

    Attributes:
        has_given_up: whether the search ended early without a result.
        blamed: by depth, the number of dead ends in which the slot was involved.
    """

    def __init__(self, choices: RowsBySlot, constraints: list[Constraint], steps: Steps) -> None:
        self._choices = choices
        self._constraints = constraints
        self._steps = steps
        self._chosen = [0] * len(choices)
        self._rest: list[Iterator[int]] = [iter(rows) for rows in choices]
        self._has_result = [False] * len(choices)
        self._dead_ends: set[Hashable] = set()
        self._open_rows: OpenRows | None = None
        self._is_ahead_known = False
        self._lookaheads_left = LOOKAHEADS_AT_FIRST
        self.has_given_up = False
        self.blamed = [0] * len(choices)
        self._row_classes: dict[Hashable, int] = {}
        self._class_of_row: dict[int, int] = {}

    def run(self, order: Sequence[int], patience: float) -> Iterator[Arrangement]:
        """Yield each arrangement, its rows in the order of the query.

        Args:
            order: the slots of the query, in the order of the search.
            patience: the number of remembered dead ends after which the search gives up if it has
                found nothing; it never gives up if this is infinite.
        """
        depth, last, is_found = 0, len(self._choices) - 1, False
        depths = [order.index(slot) for slot in range(len(order))]
        while True:
            row = self._next(depth)
            if row is None:
                if depth == 0:
                    return
                depth = self._back(depth)
                if len(self._dead_ends) > patience and not is_found:
                    self.has_given_up = True
                    return
            elif depth == last:
                self._chosen[depth] = row
                self._has_result[depth] = is_found = True
                yield tuple([self._chosen[at] for at in depths])
            else:
                depth = self._enter(depth, row)

    def _next(self, depth: int) -> int | None:
        """Return the next row that may satisfy the slot at a depth, or None if none is left."""
        constraints = self._constraints
        for row in self._rest[depth]:
            self._steps.count += 1
            # The loop is explicit, because `all` with a generator costs more than the constraints
            # themselves, and this is the innermost loop of the search.
            for constraint in constraints:
                if not constraint.allows(depth, row):
                    break
            else:
                return row
        return None

    def _enter(self, depth: int, row: int) -> int:
        """Choose a row unless that leads to a dead end; return the depth at which to continue."""
        self._chosen[depth] = row
        for constraint in self._constraints:
            constraint.take(depth, row)
        below = depth + 1
        self._is_ahead_known = False
        if (self._dead_ends or self._lookaheads_left) and self._is_dead_end(below):
            self._release(depth)
            return depth
        self._rest[below] = iter(self._open(below))
        self._has_result[below] = False
        return below

    def _back(self, depth: int) -> int:
        """Undo the choice of the previous slot and return the depth of that slot.

        If the slot at `depth` led to no result, the state is remembered as a dead end.

        Raises:
            TooManyWaysError: the budget is exhausted.
        """
        self._steps.check()
        if not self._has_result[depth]:
            self._dead_ends.add(self._state(depth))
            # Each dead end permits more look-aheads, so their cost stays in proportion.
            self._lookaheads_left += len(self._choices)
            self.blamed[depth] += 1
        above = depth - 1
        self._has_result[above] |= self._has_result[depth]
        self._release(above)
        return above

    def _is_dead_end(self, depth: int) -> bool:
        """Return whether the state before a depth is a dead end, known or found by a look-ahead.

        A look-ahead costs more than a step, so it is taken only while earlier dead ends permit it.
        """
        state = self._state(depth)
        if state in self._dead_ends:
            return True
        if self._lookaheads_left:
            self._lookaheads_left -= 1
            if not self._look_ahead(depth):
                self._dead_ends.add(state)
                # A look-ahead that found a dead end was worth its cost, so it is not counted.
                self._lookaheads_left += 1
                for at in range(depth, len(self.blamed)):
                    self.blamed[at] += 1
                return True
        return False

    def _look_ahead(self, depth: int) -> bool:
        """Narrow the remaining choices to a fixed point; return whether each slot keeps one."""
        open_rows = self._open_rows
        if open_rows is None:
            open_rows = self._open_rows = OpenRows(self._choices)
        open_rows.reopen()
        self._steps.count += len(self._choices) - depth
        before: list[int] = []
        # The loop repeats, because one constraint's narrowing may let another narrow further.
        while open_rows.open != before:
            before = list(open_rows.open)
            if not all(constraint.narrow(depth, open_rows) for constraint in self._constraints):
                return False
        self._is_ahead_known = True
        return True

    def _open(self, depth: int) -> Sequence[int]:
        """Return the rows that may satisfy the slot at a depth, less those excluded ahead."""
        open_rows, rows = self._open_rows, self._choices[depth]
        if open_rows is None or not self._is_ahead_known or not open_rows.is_narrowed(depth):
            return rows
        bits, bit_of = open_rows.open[depth], open_rows.bit_of
        return [row for row in rows if bit_of[row] & bits]

    def _release(self, depth: int) -> None:
        row = self._chosen[depth]
        for constraint in self._constraints:
            constraint.release(depth, row)

    def _state(self, depth: int) -> Hashable:
        """Return the part of the earlier choices that matters for the slots from a depth on."""
        return depth, *(
            constraint.state(depth, self._row_class) for constraint in self._constraints
        )

    def _row_class(self, row: int) -> int:
        """Return the id of a row's equivalence class, a new one if necessary.

        Rows of one class may satisfy the same slots and are equal to each constraint, so the search
        can interchange them.
        """
        number = self._class_of_row.get(row)
        if number is None:
            slots = tuple(row in rows for rows in self._choices)
            seen = (slots, *(constraint.row_class(row) for constraint in self._constraints))
            number = self._class_of_row[row] = self._row_classes.setdefault(
                seen, len(self._row_classes)
            )
        return number
