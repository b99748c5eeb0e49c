"""Derived columns: worked out from others when they are read, for the rows that are asked about."""

from collections.abc import Callable
from typing import Any, Final, Generic, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from berth.tables.columnar.bitsets import Rows

Slice: TypeAlias = "slice[Any, Any, Any]"
RowIndex: TypeAlias = "int | Rows | Slice"

_T = TypeVar("_T", np.int64, np.float64)


class Derived(Generic[_T]):
    """A column that is read as an array is, by rows or by one row, and cannot be written to.

    It costs no memory of its own.

    Attributes:
        dtype: of its values.
    """

    def __init__(self, dtype: type[_T], read: Callable[[RowIndex], NDArray[_T]]) -> None:
        """Derive values of that type by a function of a row or rows.

        Args:
            dtype: of the values.
            read: what an array would give for the same row or rows.
        """
        self.dtype: Final[np.dtype[_T]] = np.dtype(dtype)
        self._read: Final[Callable[[RowIndex], NDArray[_T]]] = read

    @overload
    def __getitem__(self, place: int) -> _T: ...
    @overload
    def __getitem__(self, place: "Rows | Slice") -> NDArray[_T]: ...
    def __getitem__(self, place: RowIndex) -> _T | NDArray[_T]:
        """Return the value of one row, or (K,) values of K rows."""
        found: NDArray[_T] = self._read(place)
        return found


class DerivedInts(Derived[np.int64]):
    """A derived column of integers."""

    def __init__(
        self,
        read: Callable[[RowIndex], NDArray[np.int64]],
        read_one: Callable[[int], int] | None = None,
    ) -> None:
        """Derive integers; see `Derived`.

        Args:
            read: what an array would give for the same row or rows.
            read_one: the same for one row as a plain number, where that takes less time.
        """
        super().__init__(np.int64, read)
        self.item: Final[Callable[[int], int]] = read_one or (lambda row: int(self[row]))
        """Return the value of one row."""


class DerivedFloats(Derived[np.float64]):
    """A derived column of floats."""

    def __init__(
        self,
        read: Callable[[RowIndex], NDArray[np.float64]],
        read_one: Callable[[int], float] | None = None,
    ) -> None:
        """Derive floats; see `Derived`.

        Args:
            read: what an array would give for the same row or rows.
            read_one: the same for one row as a plain number, where that takes less time.
        """
        super().__init__(np.float64, read)
        self.item: Final[Callable[[int], float]] = read_one or (lambda row: float(self[row]))
        """Return the value of one row."""
