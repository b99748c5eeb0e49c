"""Derived columns, computed from other columns for the rows that are read."""

from collections.abc import Callable
from typing import Any, Final, Generic, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from berth.tables.columnar.bitsets import Rows

Slice: TypeAlias = "slice[Any, Any, Any]"
RowIndex: TypeAlias = "int | Rows | Slice"

_T = TypeVar("_T", np.int64, np.float64)


class Derived(Generic[_T]):
    """A read-only column that is indexed like an array, by row or rows, and uses no memory.

    Attributes:
        dtype: the type of the values.
    """

    def __init__(self, dtype: type[_T], read: Callable[[RowIndex], NDArray[_T]]) -> None:
        """Derive values with a function of one or more rows.

        Args:
            dtype: the type of the values.
            read: returns what an array would return for the same index.
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
            read: returns what an array would return for the same index.
            read_one: returns the value of one row as a plain int, if that is faster than `read`.
        """
        super().__init__(np.int64, read)
        # An attribute instead of a method saves a call per value.
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
            read: returns what an array would return for the same index.
            read_one: returns the value of one row as a plain float, if that is faster than `read`.
        """
        super().__init__(np.float64, read)
        self.item: Final[Callable[[int], float]] = read_one or (lambda row: float(self[row]))
        """Return the value of one row."""
