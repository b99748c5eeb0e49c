"""The kernel's boards equal what numpy computes from the same values, after any changes."""

from dataclasses import dataclass, field
from random import Random
from types import ModuleType
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.domain.compute.request import Request
from berth.domain.errors import InvalidInputError
from berth.domain.ledger.change import Snapshot
from berth.scheduling.engine.kernel import Board, Changes, Kernel, Search, kernel
from berth.scheduling.rules.rule import Limit, Query
from berth.tables.host.feed import table_of
from berth.testing.fleet_strategies import requests, snapshots
from berth.testing.fleets import NOW_S, all_filters

FOUND = kernel()
needs_kernel = pytest.mark.skipif(FOUND is None, reason="no kernel is installed: make kernel")
PASSED = 3
LIMITED = 1
VALUES = (-2.5, -1.0, 0.0, 0.1, 0.3, 0.3, 1.0, 7.0, 1e9)
SHIFT = 2


def the_kernel() -> Kernel:
    """Return the kernel that is installed."""
    assert FOUND is not None
    return FOUND


@dataclass
class Small:
    """A board of few rows with the arrays that it works on, and a plain model of its results."""

    random: Random
    own: bool
    by_share: bool
    ordered: bool
    rows: int = field(init=False)

    def __post_init__(self) -> None:
        """Draw the arrays and create the board."""
        draw = self.random
        self.rows = draw.randint(1, 40)
        blocks = (self.rows >> SHIFT) + 1
        self.settled = np.array(draw.choices((0, 2, PASSED, PASSED), k=self.rows), dtype=np.uint8)
        self.stage = self.settled.copy()
        self.counts = np.bincount(self.stage, minlength=PASSED + 2).astype(np.int64)
        self.scores = np.full(blocks << SHIFT, -np.inf)
        self.greatest = np.full(blocks, -np.inf)
        self.kept = np.array(draw.choices(VALUES, k=2 * self.rows)).reshape(2, self.rows)
        self.mine = np.array(draw.choices(VALUES, k=self.rows))
        self.room = np.array(draw.choices((0, 5, 9), k=self.rows), dtype=np.int64)
        order = list(range(self.rows))
        if self.ordered:
            draw.shuffle(order)
        self.order = np.array(order, dtype=np.int64)
        self.rank = np.argsort(self.order).astype(np.int64)
        self.lines = (1, -1, 0) if self.own else (1, 0)
        self.ends = tuple(
            (
                0.0,
                np.inf,
                draw.choice((0.0, 0.25)),
                draw.choice((1.0, 3.0)),
                draw.choice((1.0, -2.0)),
            )
            for _ in self.lines
        )
        self.board: Board = the_kernel().Board(
            stage=self.stage,
            settled=self.settled,
            counts=self.counts,
            passed=PASSED,
            scores=self.scores,
            greatest=self.greatest,
            shift=SHIFT,
            lines=self.lines,
            by_share=self.by_share,
        )
        self.board.set_ends(self.ends)
        if not self.by_share:
            for index in range(len(self.lines)):
                for sign in (1, -1):
                    self.board.begin(index, sign, self.line(index).copy())

    def draw_ends(self) -> tuple[float, ...]:
        """Draw (floor, ceiling, low, span, factor)."""
        draw = self.random
        low, span, factor = draw.choice((0, 0.25)), draw.choice((1, 3)), draw.choice((1, -2, 0))
        return (draw.choice((0.0, -np.inf)), draw.choice((np.inf, 1.0)), low, span, factor)

    def line(self, index: int) -> np.ndarray:
        """Return the values of a weigher."""
        number = self.lines[index]
        return self.mine if number < 0 else self.kept[number]

    def signed(self, index: int, sign: int) -> np.ndarray:
        """Return a weigher's values times the sign for passed rows, -inf for the others."""
        return np.where(self.stage == PASSED, sign * self.line(index), -np.inf)

    def change(self) -> int:
        """Change some rows and update the board; return the flags of the update."""
        draw = self.random
        rows = draw.sample(range(self.rows), draw.randint(0, self.rows))
        for row in rows:
            self.kept[:, row] = draw.choices(VALUES, k=2)
            self.mine[row] = draw.choice(VALUES)
            self.room[row] = draw.choice((0, 5, 9))
            self.settled[row] = draw.choice((0, 2, PASSED, PASSED))
        stages = self.settled.copy()
        stages[(self.room < 5) & (stages > LIMITED)] = LIMITED
        limits: list[Limit] | None = [(self.room, 5)] if draw.random() < 0.7 else None
        asked = None if limits else stages[rows]
        own = [[float(self.mine[row])] for row in rows] if self.own else []
        search = cast("Search", lambda i, sign, a, b: self.signed(i, sign)[a:b].copy())
        rank = self.rank if self.ordered else None
        return self.board.update(
            Changes(rows, rank, self.kept, limits, LIMITED, asked, own, None, search)
        )

    def expected_scores(self) -> list[float]:
        """Return the score of every row, computed one by one."""
        found: list[float] = []
        for row in range(self.rows):
            total = 0.0
            for index, (floor, ceiling, low, span, factor) in enumerate(self.ends):
                value = float(self.line(index)[row])
                if not self.by_share:
                    value = (min(max(value, floor), ceiling) - low) / span
                total += value * factor
            found.append(total if self.stage[row] == PASSED else -np.inf)
        return found


@needs_kernel
@given(
    seed=st.integers(0, 2**32),
    own=st.booleans(),
    by_share=st.booleans(),
    ordered=st.booleans(),
    steps=st.integers(1, 8),
)
def test_a_board_is_what_its_rows_are(
    seed: int, own: bool, by_share: bool, ordered: bool, steps: int
) -> None:
    """After any changes, counts, extremes, scores and best rows equal those of the model."""
    small = Small(Random(seed), own, by_share, ordered)
    for _ in range(steps):
        before = small.stage.copy(), small.board.extremes()
        flags = small.change()
        moved = (small.stage != before[0]).any()
        assert bool(flags & the_kernel().STAGES_MOVED) == moved
        assert small.counts.tolist() == np.bincount(small.stage, minlength=PASSED + 2).tolist()
        if not by_share:
            ends = [
                (-float(small.signed(i, -1).max()), float(small.signed(i, 1).max()))
                for i in range(len(small.lines))
            ]
            assert small.board.extremes() == ends
            assert bool(flags & the_kernel().EXTREMES_MOVED) == (ends != before[1])
    everyone = list(range(small.rows))
    stages = small.stage.copy()
    own_values = [[value] for value in small.mine.tolist()] if own else []
    search = cast("Search", lambda i, sign, a, b: small.signed(i, sign)[a:b].copy())
    rank = small.rank if ordered else None
    small.board.update(
        Changes(everyone, rank, small.kept, None, LIMITED, stages, own_values, None, search)
    )
    expected = small.expected_scores()
    assert small.scores[small.rank if ordered else everyone].tolist() == expected
    if not own:
        again = small.scores.copy()
        small.scores[:] = small.greatest[:] = 0.0
        assert small.board.rescale(small.order if ordered else None, small.kept) == 0
        assert small.scores.tolist() == again.tolist()
    small.board.set_told(tuple((i, 0.0, ends[-1]) for i, ends in enumerate(small.ends)))
    for row, (score, raw, shares) in enumerate(small.board.tell(everyone, small.kept, own_values)):
        assert score == expected[row] or small.stage[row] != PASSED
        assert raw == tuple(float(small.line(i)[row]) for i in range(len(small.lines)))
        assert not by_share or shares == raw
    blocks = small.scores.reshape(-1, 1 << SHIFT).max(axis=1)
    assert small.greatest.tolist() == blocks.tolist()
    for count in (1, 3, 64):
        best = sorted(
            (row for row in everyone if expected[row] > -np.inf),
            key=lambda row: (-expected[row], small.rank[row]),
        )[:count]
        assert small.board.best(count, small.order) == best
        assert small.board.best(count, None) == [small.rank[row] for row in best]


@needs_kernel
def test_values_that_are_not_finite_are_told() -> None:
    """`update` flags a value that is not finite, and `tell` raises ArithmeticError."""
    small = Small(Random(3), own=False, by_share=False, ordered=False)
    small.kept[0, 0] = np.nan
    changes = Changes([0], None, small.kept, [], LIMITED, None, [], None, lambda *_: np.zeros(0))
    assert small.board.update(changes) & the_kernel().VALUES_UNFIT
    small.board.set_told(((0, 0.0, 1.0), (1, 0.0, 1.0)))
    with pytest.raises(ArithmeticError):
        small.board.tell([0], small.kept, [])


@needs_kernel
@pytest.mark.parametrize(
    ("field_", "value", "error"),
    [
        ("rows", [99], IndexError),
        ("rows", [-1], IndexError),
        ("rows", ["x"], TypeError),
        ("rows", (0,), TypeError),
        ("kept", np.zeros((1, 3)), ValueError),
        ("kept", np.zeros((2, 40), dtype=np.float32), ValueError),
        ("kept", None, ValueError),
        ("rank", np.zeros(0, dtype=np.int64), ValueError),
        ("limits", ((),), TypeError),
        ("limits", [(np.zeros(0, dtype=np.int64), 1)], ValueError),
        ("stages", np.zeros(0, dtype=np.uint8), ValueError),
        ("own", None, ValueError),
        ("own", [], ValueError),
        ("own", [[]], ValueError),
        ("own", [[0.0, 0.0]], ValueError),
        ("own", [["x"]], TypeError),
        ("own", [[0.0], [0.0]], ValueError),
        ("factors", np.zeros(0), ValueError),
    ],
)
def test_what_does_not_fit_is_an_error_and_no_crash(
    field_: str, value: object, error: type[Exception]
) -> None:
    """Wrong sizes, types, row indices and counts raise an error."""
    small = Small(Random(1), own=True, by_share=False, ordered=False)
    good = Changes([0], None, small.kept, [], LIMITED, None, [[0.0]], None, lambda *_: np.zeros(0))
    other: Any = {field_: value}
    with pytest.raises(error):
        small.board.update(good._replace(**other))
    for bad in (0, 65, -1):
        with pytest.raises(ValueError, match="count"):
            small.board.best(bad, None)
    with pytest.raises(IndexError):
        small.board.tell([small.rows], small.kept, [[0.0]])
    with pytest.raises(ValueError, match="own"):
        small.board.tell([0], small.kept, [])
    with pytest.raises(IndexError):
        small.board.set_told(((3, 0.0, 1.0),))


@needs_kernel
def test_an_error_of_whoever_is_asked_for_values_is_handed_on() -> None:
    """`update` passes on an error that the search callback raises."""
    small = Small(Random(5), own=True, by_share=False, ordered=False)
    small.stage[:] = small.settled[:] = PASSED
    small.mine[:] = 1.0
    small.board.begin(1, 1, small.mine)

    def fails(*_: int) -> np.ndarray:
        raise RuntimeError("asked")

    changes = Changes([0], None, small.kept, [], LIMITED, None, [[-9.0]], None, fails)
    with pytest.raises(RuntimeError, match="asked"):
        small.board.update(changes)


def test_a_kernel_of_another_time_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """`find` ignores a kernel with another API number, because its calls may differ."""
    from berth.scheduling.engine import kernel as module  # noqa: PLC0415

    other = ModuleType("berth_kernel")
    monkeypatch.setitem(__import__("sys").modules, "berth_kernel", other)
    for api, found in ((module.API + 1, False), (module.API, True)):
        monkeypatch.setattr(other, "API", api, raising=False)
        assert (module.find() is not None) == found


@given(snapshot=snapshots(least=1), request_=requests())
def test_limits_remove_what_the_filter_removes(snapshot: Snapshot, request_: Request) -> None:
    """For every filter that gives limits, they admit exactly the rows that the filter keeps."""
    hosts = table_of(snapshot)
    try:
        needs = request_.needs
    except InvalidInputError:
        return
    query = Query(request_, needs, NOW_S, None, request_.instance_uuids[0])
    for rule in all_filters():
        limits = None if rule.limits is None else rule.limits(hosts, query)
        verdict = rule.keep(hosts, query, hosts.all_rows)
        if limits is not None and verdict is not None:
            passes = np.ones(len(hosts), dtype=np.bool_)
            for column, amount in limits:
                passes &= column[: len(hosts)] >= amount
            assert verdict.tolist() == passes.tolist(), rule.name


def test_some_filter_has_limits() -> None:
    """At least one filter gives limits, so the test above checks something."""
    assert any(rule.limits is not None for rule in all_filters())
