"""Alternates: the hosts to try first if a build fails (nova-behaviour.md 2.5).

Alternates are the next best hosts of a decision and are not claimed. Before an alternate is used,
every filter checks it again, on the table as it is at that time.
"""

from collections.abc import Collection, Iterable
from itertools import islice
from typing import Final

from berth.domain.compute.request import Operation, Request
from berth.scheduling.evaluation.ranking import Ranking
from berth.tables.host.hosts import HostTable

HostAndNode = tuple[str, str]

# A ranking is first read for the wanted alternates and at most this many chosen hosts.
_FEW: Final = 8
_WITH_ALTERNATES: Final = frozenset(
    {Operation.CREATE, Operation.RETRY, Operation.RESIZE, Operation.MIGRATE}
)


def has_alternates(request: Request) -> bool:
    """Return whether a decision on the request names alternates.

    It names none if the request names its host, or if Nova makes a new decision after a failure of
    the operation.
    """
    if request.force_hosts or request.force_nodes or request.destination is not None:
        return False
    return request.operation in _WITH_ALTERNATES


def first_alternate(hosts: HostTable, request: Request, ranked: Ranking) -> int | None:
    """Return the index in the ranking of the first alternate that the ranking holds, or None."""
    for name, node in request.alternates:
        for row in sorted(hosts.host_names.of_name(name)):
            number = ranked.find(row) if hosts.node(row) == node else None
            if number is not None:
                return number
    return None


def alternates_of(
    hosts: HostTable, ranked: Ranking, chosen: Collection[int], wanted: int
) -> dict[int, tuple[HostAndNode, ...]]:
    """Return the alternates of each chosen row: the best hosts without an instance of the request.

    Args:
        hosts: the table.
        ranked: the ranking of a single instance, or the ranking after several were placed.
        chosen: the rows that were chosen for instances.
        wanted: the number of alternates for each row.

    Returns:
        At most `wanted` (host, node) pairs by row, best first. All are in the cell of the row,
        because a build cannot be retried in another cell.
    """
    found: dict[int, tuple[HostAndNode, ...]] = dict.fromkeys(chosen, ())
    if not wanted or not ranked.size:
        return found
    if len(found) == 1:
        (row,) = found
        pairs = _best_beside(hosts, ranked, row, wanted)
        if pairs is not None:
            return {row: pairs}
    cell_of = {row: hosts.cell.item(row) for row in found}
    cells = set(cell_of.values())
    rows = _best_others(ranked, found, wanted)
    if len(cells) > 1 or any(hosts.cell.item(row) not in cells for row in rows):
        rows = _best_others(ranked, found, ranked.size)
    by_cell = {cell: _in_cell(hosts, cell, rows, wanted) for cell in cells}
    return {row: by_cell[cell] for row, cell in cell_of.items()}


def _best_beside(
    hosts: HostTable, ranked: Ranking, row: int, wanted: int
) -> tuple[HostAndNode, ...] | None:
    """Return the alternates of the only chosen row, or None if one would be in another cell."""
    cell = hosts.cell.item(row) if hosts.has_cells else None
    pairs: list[HostAndNode] = []
    for number in ranked.best(min(wanted + 1, ranked.size)):
        other = ranked.row(number)
        if cell is not None and hosts.cell.item(other) != cell:
            return None
        if other != row and len(pairs) < wanted:
            name, node, _ = hosts.identity(other)
            pairs.append((name, node))
    return tuple(pairs)


def _best_others(ranked: Ranking, chosen: Collection[int], count: int) -> list[int]:
    """Return the rows of the best hosts that were not chosen: at least `count`, or all.

    Chosen hosts often rank lower once their instances are on them, so only a few more than `count`
    are read first.
    """
    looked = min(count + min(len(chosen), _FEW), ranked.size)
    while True:
        rows = [row for row in map(ranked.row, ranked.best(looked)) if row not in chosen]
        if len(rows) >= count or looked == ranked.size:
            return rows
        # Each round reads four times as many, so even many chosen hosts at the top take few rounds.
        looked = min(4 * looked, ranked.size)


def _in_cell(
    hosts: HostTable, cell: int, rows: Iterable[int], wanted: int
) -> tuple[HostAndNode, ...]:
    inside = (row for row in rows if hosts.cell.item(row) == cell)
    return tuple((hosts.name(row), hosts.node(row)) for row in islice(inside, wanted))
