"""The interface of the optional compiled kernel (ADR 13).

The engine works without the kernel. The directory `kernel/` of the project contains its source and
its build script.
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
"""The version of the kernel's interface; a module with another version is not used."""

_MODULE: Final = "berth_kernel"

Search = Callable[[int, int, int, int], NDArray[np.float64]]
"""Takes (index, sign, start, stop) and returns the values of one weigher for a range of rows.

The index is that of the weigher. The values are negated if sign is -1, and -inf for rows that do
not pass.
"""


class Changes(NamedTuple):
    """The arguments of `Board.update`: changed rows and the data to update them.

    Attributes:
        rows: the K rows, each once.
        rank: the position of each row of the table, or None when positions are rows.
        kept: (L, N) the lines of the readings.
        limits: the limits of the only volatile filter; empty when no filter is volatile, None to
            use `stages`.
        limited_stage: the index of that filter.
        stages: (K,) the stages of the rows if `limits` is None, else None.
        own: for each row the values of the weighers without a line, in their order; empty when all
            have one.
        factors: (W, K) the multipliers if they vary between hosts, else None.
        search: returns values of weighers without a line.
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
    """The scores of one request profile; see `kernel/berth_kernel.c`."""

    def set_ends(self, each: tuple[tuple[float, ...], ...], /) -> None:
        """Set the scales: (floor, ceiling, low, span, factor) for each weigher."""
        ...

    def begin(self, index: int, sign: int, values: NDArray[np.float64], /) -> None:
        """Track the greatest of a weigher's values, or of their negatives, among rows that pass.

        Args:
            index: the index of the weigher.
            sign: 1, or -1 for the negatives.
            values: (N,) the values of all rows.
        """
        ...

    def extremes(self) -> list[tuple[float, float]]:
        """Return (least, greatest) for each weigher; 0 for a side that is not tracked."""
        ...

    def update(self, changes: "Changes", /) -> int:
        """Update changed rows, and return a combination of the flags of `Kernel`, or 0.

        Raises:
            IndexError: a row is out of range.
            ValueError: an array has the wrong size or type.
        """
        ...

    def rescale(self, order: Rows | None, kept: NDArray[np.float64], /) -> int:
        """Score every row, and return VALUES_UNFIT, SCORES_UNFIT, both or 0.

        All weighers must have a line.

        Args:
            order: the row at each position, or None when positions are rows.
            kept: (L, N) the lines of the readings.
        """
        ...

    def set_told(self, each: tuple[tuple[int, float, float], ...], /) -> None:
        """Set the terms that `tell` returns.

        Args:
            each: (index, value, factor) for every weigher. An idle weigher has the index -1 and
                its value for every host; the value is ignored for any other weigher.
        """
        ...

    def tell(
        self, rows: list[int], kept: NDArray[np.float64], own: list[list[float]], /
    ) -> list[tuple[float, tuple[float, ...], tuple[float, ...]]]:
        """Return (score, raw values, normalised values) of each row, on the scales of `set_ends`.

        `own` contains for each row the values of the weighers without a line, in their order.

        Raises:
            ArithmeticError: a value is not finite.
        """
        ...

    def best(self, count: int, order: Rows | None, /) -> list[int]:
        """Return the positions of the `count` best hosts, best first; with `order`, their rows."""
        ...


class Kernel(Protocol):
    """The contents of the compiled module.

    Attributes:
        API: the version of its interface.
        BEST_MAX: the maximum number of hosts that `Board.best` finds.
        STAGES_MOVED: the flag for a changed stage.
        EXTREMES_MOVED: the flag for a changed extreme.
        SCORES_UNFIT: the flag for a score that is not finite.
        VALUES_UNFIT: the flag for a value that is not finite.
    """

    API: int
    BEST_MAX: int
    STAGES_MOVED: int
    EXTREMES_MOVED: int
    SCORES_UNFIT: int
    VALUES_UNFIT: int

    Board: Callable[..., Board]
    """Takes stage, settled, counts, passed, scores, greatest, shift, lines and by_share by keyword,
    and returns a board that writes to these arrays; see `KernelBoard`."""


def kernel() -> Kernel | None:
    """Return the kernel in use, or None if there is none."""
    return _in_use[-1]


@contextmanager
def using(one: Kernel | None) -> Generator[None]:
    """Use a kernel, or none, for request profiles that are created in the context."""
    _in_use.append(one)
    try:
        yield
    finally:
        _in_use.pop()


def find() -> Kernel | None:
    """Return the installed kernel, or None if it is missing or unusable.

    The module is unusable if its interface has another version, or if the platform's indices are
    not 64 bits wide.
    """
    try:
        module = import_module(_MODULE)
    except ImportError:
        return None
    if getattr(module, "API", None) != API or np.dtype(np.intp).itemsize != np.dtype("q").itemsize:
        return None
    return cast("Kernel", module)


_in_use: Final = [find()]
