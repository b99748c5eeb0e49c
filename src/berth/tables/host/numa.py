"""The free resources of the hosts' NUMA cells, in arrays with one place per NUMA cell."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from berth.domain.hardware.assignment import CellShare
from berth.domain.hardware.numa import NumaCell
from berth.tables.columnar.bitsets import Selection, count_of
from berth.tables.columnar.column_set import ColumnSet
from berth.tables.columnar.interned import ValueIds
from berth.tables.columnar.schema import CELL_COLUMNS
from berth.tables.host.cell_use import CellShape, CellUse, FreeCell, free_cell, shape_of

Places = NDArray[np.intp]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
SmallInts = NDArray[np.int32]

Layout = tuple[tuple[int, int | None], ...]
"""Id and socket of each cell of a host; the socket is None if unknown."""

_FIRST_PLACES = 64
_NO_USE = CellUse()


class CellColumns(ColumnSet):
    """The free resources of each NUMA cell (see `schema.CELL_COLUMNS`)."""

    row: Ints
    cell_id: Ints
    socket: Ints
    shared_cpus: Ints
    shared_used: Ints
    dedicated: Ints
    free: Ints
    usable: Ints
    paired: Ints
    cores: Ints
    whole_cores: Ints
    threads: SmallInts
    is_old: Bools
    memory_mb: Ints
    memory_used_mb: Ints
    smallest_kb: Ints
    smallest_total_kb: Ints
    smallest_free_kb: Ints

    def __init__(self, rows: int) -> None:
        super().__init__(CELL_COLUMNS, rows)

    def put(self, place: int, row: int, shape: CellShape) -> None:
        """Store a NUMA cell of a row at a place, without its free resources."""
        self.row[place] = row
        self.cell_id[place] = shape.cell.cell_id
        self.socket[place] = -1 if shape.cell.socket is None else shape.cell.socket
        self.shared_cpus[place] = shape.shared_cpus
        self.dedicated[place] = shape.dedicated.bit_count()
        self.threads[place] = shape.threads
        self.is_old[place] = shape.is_old
        self.memory_mb[place] = shape.cell.memory_mb
        self.smallest_kb[place] = shape.smallest_kb
        for pages in shape.cell.mempages:
            if pages.size_kb == shape.smallest_kb:
                self.smallest_total_kb[place] = pages.total * pages.size_kb

    def put_free(self, place: int, cell: FreeCell) -> None:
        """Set the free resources of the NUMA cell at a place."""
        counts, threads = cell.core_counts, cell.shape.threads
        self.shared_used[place] = cell.shared_used
        self.free[place] = cell.free_count
        self.usable[place] = sum(counts)
        self.paired[place] = most_paired(counts)
        self.cores[place] = len(counts)
        self.whole_cores[place] = len([count for count in counts if count >= threads])
        self.memory_used_mb[place] = cell.memory_used_mb
        self.smallest_free_kb[place] = dict(cell.pages_kb).get(cell.shape.smallest_kb, 0)


def most_paired(counts: Iterable[int]) -> int:
    """Return the most CPUs that can be taken if each core used provides the same number of them.

    That number is at least two, so the result is 0 if no core has two free CPUs.

    Args:
        counts: the number of free CPUs of each core.
    """
    ordered = sorted(counts, reverse=True)
    return max(
        (count * number for number, count in enumerate(ordered, start=1) if count > 1), default=0
    )


class NumaCells:
    """The NUMA cells of every row, and their usage by the instances on the row.

    Rows without NUMA cells cost a few bytes. The arrays are updated only when they are read, so
    several changes of a row in between cost as much as one.
    """

    def __init__(self, rows: int) -> None:
        self._columns = CellColumns(0)
        self._pages_kb: dict[int, Ints] = {}
        self._rows = rows
        self._places: Places = np.zeros((rows, 0), dtype=np.intp)
        self._layout_ids: Ints = np.zeros(0, dtype=np.int64)
        self._layouts = ValueIds[Layout]()
        self._shapes: dict[int, tuple[CellShape, ...]] = {}
        self._uses: dict[int, dict[int, CellUse]] = {}
        self._taken: dict[int, Counter[CellShare]] = {}
        self._unused: list[int] = []
        self._changed: set[int] = set()

    @property
    def columns(self) -> CellColumns:
        """The free resources of each NUMA cell, by place."""
        self.refresh()
        return self._columns

    @property
    def pages_kb(self) -> Mapping[int, Ints]:
        """Free memory in KiB by page size in KiB and place; -1 if a NUMA cell lacks such pages."""
        self.refresh()
        return self._pages_kb

    def resize(self, rows: int) -> None:
        """Grow to `rows` rows; new rows have no NUMA cells."""
        grown = np.full((rows, self._places.shape[1]), -1, dtype=np.intp)
        grown[: self._rows] = self._places
        self._places = grown
        if self._layout_ids.size:
            self._layout_ids = np.pad(self._layout_ids, (0, rows - self._rows))
        self._rows = rows

    def places(self, rows: Selection) -> Places:
        """Return the places of the given rows' NUMA cells: (K, C), padded with -1."""
        found: Places = self._places[rows]
        return found

    def layout(self, row: int) -> Layout:
        """Return the id and socket of each NUMA cell of a row, in the host's order."""
        return _layout(self._shapes.get(row, ()))

    def layout_ids(self, rows: Selection) -> Ints:
        """Return the layout ids of K rows: (K,); equal for equal layouts, 0 without NUMA cells."""
        if not self._layout_ids.size:
            return np.zeros(count_of(rows), dtype=np.int64)
        found: Ints = self._layout_ids[rows]
        return found

    def reported(self, row: int) -> tuple[NumaCell, ...]:
        """Return the NUMA cells of a row as passed to `put`."""
        return tuple(shape.cell for shape in self._shapes.get(row, ()))

    def cells(self, row: int) -> tuple[FreeCell, ...]:
        """Return the free resources of the NUMA cells of a row, in the host's order."""
        uses = self._uses.get(row, {})
        return tuple(
            free_cell(shape, uses.get(shape.cell.cell_id, _NO_USE))
            for shape in self._shapes.get(row, ())
        )

    def put(self, row: int, cells: tuple[NumaCell, ...]) -> None:
        """Replace the NUMA cells of a row; the usage by instances is kept."""
        old = self._shapes.pop(row, ())
        # Agents report NUMA cells periodically, and nearly always the same ones.
        if cells == tuple(shape.cell for shape in old):
            if old:
                self._shapes[row] = old
            return
        for place in self._places[row][: len(old)].tolist():
            self._clear(place)
        self._places[row] = -1
        shapes = tuple(shape_of(cell) for cell in cells)
        if not self._layout_ids.size:
            self._layout_ids = np.zeros(self._rows, dtype=np.int64)
        self._layout_ids[row] = self._layouts.number(_layout(shapes)) if shapes else 0
        if not shapes:
            return
        self._shapes[row] = shapes
        self._widen(len(shapes))
        for index, shape in enumerate(shapes):
            place = self._places[row, index] = self._new_place()
            self._columns.put(place, row, shape)
        self._changed.add(row)

    def take(self, row: int, shares: Sequence[CellShare]) -> None:
        """Count the shares of a row's NUMA cells that an instance uses."""
        if not shares:
            return
        uses = self._uses.setdefault(row, {})
        self._taken.setdefault(row, Counter()).update(shares)
        for share in shares:
            uses.setdefault(share.host_cell, CellUse()).take(share)
        self._changed.add(row)

    def release(self, row: int, shares: Sequence[CellShare]) -> None:
        """Undo one `take` of equal shares; shares that are not in use are ignored."""
        taken = self._taken.get(row, Counter[CellShare]())
        for share in shares:
            # A release may be repeated, or follow a removal of the host.
            if taken[share]:
                taken.subtract((share,))
                if not taken[share]:
                    del taken[share]
                self._uses[row][share.host_cell].release(share)
                self._changed.add(row)
        if shares and not taken:
            self._uses.pop(row, None)
            self._taken.pop(row, None)

    def clear(self, row: int) -> None:
        """Remove the NUMA cells of a row, and their usage."""
        self.put(row, ())
        self._uses.pop(row, None)
        self._taken.pop(row, None)

    def refresh(self) -> None:
        """Update the arrays for the rows that have changed."""
        if not self._changed:
            return
        for row in self._changed:
            for place, cell in zip(self._places[row].tolist(), self.cells(row), strict=False):
                self._columns.put_free(place, cell)
                for size_kb, free_kb in cell.pages_kb:
                    self._pages(size_kb)[place] = free_kb
        self._changed.clear()

    def _pages(self, size_kb: int) -> Ints:
        column = self._pages_kb.get(size_kb)
        if column is None:
            column = self._pages_kb[size_kb] = np.full(self._columns.rows, -1, dtype=np.int64)
        return column

    def _widen(self, count: int) -> None:
        missing = count - self._places.shape[1]
        if missing > 0:
            more = np.full((self._rows, missing), -1, dtype=np.intp)
            self._places = np.hstack((self._places, more))

    def _new_place(self) -> int:
        if not self._unused:
            first, rows = self._columns.rows, max(self._columns.rows * 2, _FIRST_PLACES)
            self._columns.resize(rows)
            for size_kb, column in self._pages_kb.items():
                grown = self._pages_kb[size_kb] = np.full(rows, -1, dtype=np.int64)
                grown[:first] = column
            # The order is descending so that `pop` returns the lowest place first.
            self._unused.extend(range(rows - 1, first - 1, -1))
        return self._unused.pop()

    def _clear(self, place: int) -> None:
        self._columns.clear(place)
        for size_kb, column in list(self._pages_kb.items()):
            column[place] = -1
            if (column == -1).all():
                del self._pages_kb[size_kb]
        self._unused.append(place)


def _layout(shapes: tuple[CellShape, ...]) -> Layout:
    return tuple((shape.cell.cell_id, shape.cell.socket) for shape in shapes)
