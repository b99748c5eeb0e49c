"""The kernel: a compiled module that the engine uses where it is installed (ADR 13).

Everything works without it; `kernel/` in the project has its source, and how it is built.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Final, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from berth.scheduling.rules.rule import Limit
from berth.tables.columnar.bitsets import Rows

API: Final = 2
"""What calls of the kernel mean; one that says another number is not used."""

_MODULE: Final = "berth_kernel"

Search = Callable[[int, int, int, int], NDArray[np.float64]]
"""(index, sign, start, stop) -> the values of one weigher for a range of rows, or their negatives;
-inf for rows that do not pass."""


class Changes(NamedTuple):
    """Rows that changed, each once, and what there is to know of them.

    Attributes:
        rows: K row numbers.
        rank: the position of each row of the table; None when that is the row itself.
        kept: (L, N) lines of values, of which the board knows the ones that it needs.
        limits: of the one filter whose verdicts a placement changes; None to use `stages`.
        limited_stage: the index of that filter.
        stages: (K,) the stages of the rows, in place of limits.
        own: for each row the values of the weighers without a line, in their order.
        factors: (W, K) multipliers, where they differ between hosts.
        search: asked for values of weighers without a line.
    """

    rows: list[int]
    rank: Rows | None
    kept: NDArray[np.float64]
    limits: list[Limit] | None
    limited_stage: int
    stages: NDArray[np.uint8] | None
    own: list[list[float]]
    factors: NDArray[np.float64] | None
    search: Search


class Board(Protocol):
    """The scores of one request class; see `kernel/berth_kernel.c`."""

    def set_ends(self, each: tuple[tuple[float, ...], ...], /) -> None:
        """Put scores on these scales; (floor, ceiling, low, span, factor) for each weigher."""
        ...

    def begin(self, index: int, sign: int, values: NDArray[np.float64], /) -> None:
        """Follow the greatest of a weigher's values, or of their negatives, among rows that pass.

        Args:
            index: of the weigher.
            sign: 1, or -1 for the negatives.
            values: (N,) of every row.
        """
        ...

    def extremes(self) -> list[tuple[float, float]]:
        """Return (least, greatest) for each weigher; 0 for what is not followed."""
        ...

    def update(self, changes: "Changes", /) -> int:
        """Take in rows that changed; return flags, by the names that the module has.

        Raises:
            IndexError: there is no such row.
            ValueError: an array is of another size or type.
        """
        ...

    def rescale(self, order: Rows | None, kept: NDArray[np.float64], /) -> int:
        """Score every row, where every weigher has a line; return flags.

        Args:
            order: the row at each position; None when that is the position itself.
            kept: (L, N) lines of values.
        """
        ...

    def set_told(self, each: tuple[tuple[int, float, float], ...], /) -> None:
        """Say what `tell` is to tell.

        Args:
            each: (index, value, factor) for every weigher, idle ones too: their index is -1, and
                that value is what they say of every host.
        """
        ...

    def tell(
        self, rows: list[int], kept: NDArray[np.float64], own: list[list[float]], /
    ) -> list[tuple[float, tuple[float, ...], tuple[float, ...]]]:
        """Return (score, raw values, normalised values) of rows, on the scales of `set_ends`.

        `own` has for each row the values of the weighers without a line, in their order.

        Raises:
            ArithmeticError: a value is not finite.
        """
        ...

    def best(self, count: int, order: Rows | None, /) -> list[int]:
        """Return the positions of the `count` best, best first, or what `order` has there."""
        ...


class Kernel(Protocol):
    """What the module has."""

    API: int
    BEST_MAX: int
    STAGES_MOVED: int
    EXTREMES_MOVED: int
    SCORES_UNFIT: int
    VALUES_UNFIT: int

    Board: Callable[..., Board]
    """Makes a board on arrays that it writes to: stage, settled, counts, passed, scores, greatest,
    shift, lines, by_share; see `Compiled`."""


def kernel() -> Kernel | None:
    """Return the kernel; None where there is none that fits, or while it is not to be used."""
    return _in_use[-1]


@contextmanager
def using(one: Kernel | None) -> Generator[None]:
    """Use a kernel, or none, for the request classes that are made meanwhile."""
    _in_use.append(one)
    try:
        yield
    finally:
        _in_use.pop()


def find() -> Kernel | None:
    """Look for the module; one of another time is left alone."""
    try:
        module = import_module(_MODULE)
    except ImportError:
        return None
    if getattr(module, "API", None) != API or np.dtype(np.intp).itemsize != np.dtype("q").itemsize:
        return None
    return cast("Kernel", module)


_in_use: Final = [find()]
