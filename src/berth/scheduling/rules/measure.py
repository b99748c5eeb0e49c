"""Measures: the columns that a weigher reads, and one formula for a single host and for many.

A weigher's rule is bound to a table and a request, which yields the columns that it reads and a
formula over their values. The formula is evaluated on whole columns when many hosts are weighed,
and on plain numbers when a single host has changed: an array of one element costs several times as
much. Formulas use `Arithmetic` and Python's operators, which work on both arrays and numbers.

A share is a value in [0, 1], relative to a host's own capacity, for policies that normalise by
share. It depends on the host and the request alone, so scores can be compared between requests and
between zones.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from berth.scheduling.rules.rule import Query, ReadOne, Scores, always
from berth.tables.columnar.bitsets import Selection, count_of
from berth.tables.host.hosts import HostTable

# A rule with at least `_SEVERAL_COLUMNS` columns reads up to `_FEW_ROWS` rows faster one by one
# than as arrays: each array operation costs about as much as a formula on plain numbers.
_FEW_ROWS: Final = 16
_SEVERAL_COLUMNS: Final = 4

Value = Any
"""A number, or an array with one number for each of K rows: formulas take either."""


class MeasuredColumn(Protocol):
    """One value per row, read like an array: by index for many rows, or by `item` for one."""

    def __getitem__(self, rows: Selection, /) -> Value:
        """Return the (K,) values of K rows."""
        ...

    @property
    def item(self) -> Callable[[int], Any]:
        """The function that returns the value of one row as a plain number."""
        ...


# `Computed` and `BoundMeasure` are not frozen: each request creates new ones, and creating a frozen
# dataclass takes several times as long.
@dataclass(slots=True)
class Computed:
    """A column whose values are computed for the rows that are read.

    `of` computes the (K,) values of K rows. `of_one` computes the value of one row faster than an
    array of one element does; None if there is no faster way.
    """

    of: Callable[[Selection], NDArray[Any]]
    of_one: Callable[[int], float] | None = None

    def __getitem__(self, rows: Selection) -> NDArray[Any]:
        """See `MeasuredColumn.__getitem__`."""
        return self.of(rows)

    @property
    def item(self) -> Callable[[int], Any]:
        """See `MeasuredColumn.item`."""
        return self.of_one or (lambda row: self.of(np.array((row,), dtype=np.intp)).item(0))


def constant(value: float) -> "BoundMeasure":
    """Return a measure with the same value for every row."""
    column = Computed(lambda rows: np.full(count_of(rows), value), lambda _: value)
    return BoundMeasure((column,))


class Arithmetic(Protocol):
    """The operations of formulas that differ between numbers and arrays.

    `least` and `greatest` return NaN if the first argument is NaN.
    """

    def least(self, value: Value, other: Value, /) -> Value:
        """Return the lesser of two values."""
        ...

    def greatest(self, value: Value, other: Value, /) -> Value:
        """Return the greater of two values."""
        ...

    def ratio(self, part: Value, whole: Value, otherwise: float, /) -> Value:
        """Return part / whole, or `otherwise` if the whole is 0 or below."""
        ...

    def rounded(self, value: Value, /) -> Value:
        """Return the value rounded to a whole number, with halves rounded to even."""
        ...


class _Numbers:
    """Arithmetic of plain numbers; `min` and `max` would take about twice as long."""

    def least(self, value: float, other: float) -> float:
        return other if other < value else value  # noqa: FURB136 - faster, see above

    def greatest(self, value: float, other: float) -> float:
        return other if other > value else value  # noqa: FURB136 - faster, see above

    def ratio(self, part: float, whole: float, otherwise: float) -> float:
        return part / whole if whole > 0 else otherwise

    def rounded(self, value: float) -> float:
        return round(value)


class _Arrays:
    """Arithmetic of arrays, with one value for each of K rows."""

    def least(self, value: Scores, other: Scores | float) -> Scores:
        return np.minimum(value, other)

    def greatest(self, value: Scores, other: Scores | float) -> Scores:
        return np.maximum(value, other)

    def ratio(self, part: Scores | float, whole: Scores, otherwise: float) -> Scores:
        # On most fleets every host has every class, and a masked division is several times slower.
        if whole.min(initial=1.0) > 0:
            shares: Scores = np.true_divide(part, whole)
            return shares
        shares = np.full(whole.shape, otherwise)
        np.divide(part, whole, out=shares, where=whole > 0)
        return shares

    def rounded(self, value: Scores) -> Scores:
        return np.rint(value)


NUMBERS: Final[Arithmetic] = _Numbers()
ARRAYS: Final[Arithmetic] = _Arrays()

Step = Callable[[Arithmetic, Value], Value]
"""(arithmetic, value) -> value."""

Formula = Callable[..., Value]
"""(arithmetic, one value of each column) -> value."""


@dataclass(slots=True)
class BoundMeasure:
    """A rule bound to a table and a request: at least one column, and a formula over their values.

    Without a formula, the measure is the first column. A measure is valid until the table's
    `structure` or its list of hosts changes.
    """

    columns: Sequence[MeasuredColumn]
    formula: Formula | None = None

    def of_rows(self, rows: Selection) -> Scores:
        """Return the (K,) float64 values of K rows."""
        columns, formula = self.columns, self.formula
        if formula is None:
            return np.asarray(columns[0][rows], dtype=np.float64)
        if len(columns) >= _SEVERAL_COLUMNS and count_of(rows) <= _FEW_ROWS:
            read = self.of_row()
            each: Sequence[int] = range(rows.stop) if isinstance(rows, slice) else rows.tolist()
            return np.array([read(row) for row in each], dtype=np.float64)
        # Floats hold amounts exactly. Integers would be converted again for each division.
        return np.asarray(
            formula(ARRAYS, *[np.asarray(column[rows], dtype=np.float64) for column in columns]),
            dtype=np.float64,
        )

    def of_row(self) -> ReadOne:
        """Return a function that returns the value of a row, by the operations of `of_rows`."""
        formula, items = self.formula, [column.item for column in self.columns]
        first = items[0]
        if formula is None:
            return lambda row: float(first(row))
        # Most rules have one column, so no list of values is created in this common case.
        if len(items) == 1:
            return lambda row: formula(NUMBERS, first(row))
        return lambda row: formula(NUMBERS, *[item(row) for item in items])


Binding = Callable[[HostTable, Query], BoundMeasure | None]
"""(hosts, query) -> the measure on a table for a request, or None if the rule does not apply."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A weigher's rule in all its forms; it serves as `Weigher.raw` and `Weigher.share`.

    `bind` returns the measure on a table for a request, or None if the weigher does not apply to
    the request, regardless of the hosts.
    """

    bind: Binding

    def __call__(self, hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
        """Return the (K,) float64 values of K rows, or None if the rule does not apply."""
        measure = self.bind(hosts, query)
        return None if measure is None else measure.of_rows(rows)

    def of_row(self, hosts: HostTable, query: Query) -> ReadOne:
        """Return a function that returns the value of a row; see `Weigher.raw_of_one`.

        The function returns NaN if the rule does not apply.
        """
        measure = self.bind(hosts, query)
        return always(math.nan) if measure is None else measure.of_row()

    def then(self, step: Step) -> "Rule":
        """Return the rule with one more step applied to its value."""

        def bind(hosts: HostTable, query: Query) -> BoundMeasure | None:
            measure = self.bind(hosts, query)
            if measure is None:
                return None
            inner = measure.formula
            if inner is None:
                return BoundMeasure(measure.columns, step)

            def formula(arithmetic: Arithmetic, *values: Value) -> Value:
                return step(arithmetic, inner(arithmetic, *values))

            return BoundMeasure(measure.columns, formula)

        return Rule(bind)


# ---- shares ---------------------------------------------------------------------------------


def part(arithmetic: Arithmetic, free: Value, whole: Value) -> Value:
    """Return free / whole in [0, 1]: 0 if nothing is free or the whole is 0 or below.

    Args:
        arithmetic: the operations for numbers or for arrays.
        free: the amount that is left; may be below 0.
        whole: the capacity, in the same unit.
    """
    share = arithmetic.ratio(free, whole, 0.0)
    return arithmetic.least(arithmetic.greatest(share, 0.0), 1.0)


def filled(arithmetic: Arithmetic, count: Value, scale: float) -> Value:
    """Return count / (count + scale): 0 for 0, 1/2 at `scale`, below 1 for any count.

    Args:
        arithmetic: the operations for numbers or for arrays.
        count: a number without an upper bound; a value below 0 is read as 0.
        scale: above 0, in the same unit.
    """
    above = arithmetic.greatest(count, 0.0)
    return above / (above + scale)


def tilted(values: Scores, scale: float) -> Scores:
    """Return (1 + value / (|value| + scale)) / 2, which is 1/2 at 0 and lies between 0 and 1.

    Args:
        values: (K,) numbers without bounds; the share of NaN is 0, the least.
        scale: the value at which the share is 3/4; above 0.
    """
    finite = np.nan_to_num(values, nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    # The bound is half of the greatest float, so adding the scale cannot overflow.
    bounded = np.clip(finite, -np.finfo(np.float64).max / 2, np.finfo(np.float64).max / 2)
    shares: Scores = (1.0 + bounded / (np.abs(bounded) + scale)) / 2.0
    return shares


def check_scale(scale: float, option: str = "scale") -> float:
    """Return `scale`, the value of an option, if it is valid.

    Raises:
        ValueError: the scale is not above 0.
    """
    if scale <= 0:
        raise ValueError(f"{option}: {scale} must be above 0")
    return scale
