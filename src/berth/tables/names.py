"""Host names: which rows a service host or a node has."""

from typing import TypeAlias

from berth.domain.host import Host

_Rows: TypeAlias = int | frozenset[int]
"""Most names have one row, and a set for each would take more room than all the rest."""


class HostNames:
    """Rows by service host name, by the same without case, and by node.

    One service host may manage many nodes, so a name may have many rows. Nodes that are called
    like their host, and names that have no upper case, are found by the name itself.
    """

    def __init__(self) -> None:
        self._by_name: dict[str, _Rows] = {}
        self._by_other_node: dict[str, _Rows] = {}
        self._otherwise: set[int] = set()
        """Rows whose node is not called like their host."""
        self._folded: dict[str, set[str]] = {}

    def add(self, row: int, host: Host) -> None:
        """Note that a row holds a host."""
        _add(self._by_name, host.name, row)
        if host.node != host.name:
            _add(self._by_other_node, host.node, row)
            self._otherwise.add(row)
        folded = host.name.casefold()
        if folded != host.name:
            self._folded.setdefault(folded, set()).add(host.name)

    def discard(self, row: int, host: Host) -> None:
        """Undo `add` with equal arguments."""
        _drop(self._by_name, host.name, row)
        if host.node != host.name:
            _drop(self._by_other_node, host.node, row)
            self._otherwise.discard(row)
        folded = host.name.casefold()
        if folded != host.name and host.name not in self._by_name:
            names = self._folded[folded]
            names.discard(host.name)
            if not names:
                del self._folded[folded]

    def of_name(self, name: str) -> frozenset[int]:
        """Return the rows of a service host, by its exact name."""
        return _set(self._by_name.get(name))

    def of_folded_name(self, folded: str) -> frozenset[int]:
        """Return the rows of every service host whose name, case folded, is `folded`."""
        rows = self.of_name(folded) if folded.casefold() == folded else frozenset[int]()
        return rows.union(*(self.of_name(name) for name in self._folded.get(folded, ())))

    def of_node(self, node: str) -> frozenset[int]:
        """Return the rows of a node, by its exact name."""
        namesakes = self.of_name(node) - self._otherwise
        return namesakes | _set(self._by_other_node.get(node))


def _set(rows: _Rows | None) -> frozenset[int]:
    if rows is None:
        return frozenset()
    return frozenset((rows,)) if isinstance(rows, int) else rows


def _add(index: dict[str, _Rows], key: str, row: int) -> None:
    rows = index.get(key)
    index[key] = row if rows is None else _set(rows) | {row}


def _drop(index: dict[str, _Rows], key: str, row: int) -> None:
    left = _set(index[key]) - {row}
    if not left:
        del index[key]
    else:
        index[key] = left if len(left) > 1 else next(iter(left))
