"""The service host name and the node of each row, and the rows of each name and node."""

from berth.domain.compute.host import Host
from berth.tables.columnar.row_texts import RowTexts

# At most this many rows are cached by name, about a megabyte.
_RECENT_MAX = 10_000


class HostNames:
    """Names and nodes by row, and rows by name, by case-folded name and by node.

    One service host may manage many nodes, so a name may have many rows. A node equal to its host's
    name is not stored, and a name that is already case-folded has no entry by folded name. In most
    fleets both are true of all hosts, and only the names use memory.
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._names = RowTexts(rows)
        # Nodes of the rows whose node differs from the host name; None until the first such row.
        self._nodes: RowTexts | None = None
        self._folded: dict[str, set[str]] = {}
        # The results of `only_row` since the last change, because the events of the feed often name
        # the same few hosts.
        self._recent: dict[str, int] = {}

    @property
    def are_unique(self) -> bool:
        """Whether every name has at most one row."""
        return self._names.are_unique

    def name(self, row: int) -> str:
        """Return the name of the service host of a row; empty for an unused row."""
        return self._names.texts.get(row)

    def node(self, row: int) -> str:
        """Return the node of a row; empty for an unused row."""
        node = self.other_node(row)
        return self._names.texts.get(row) if node is None else node

    def other_node(self, row: int) -> str | None:
        """Return the node of a row if it differs from the host name, else None."""
        return None if self._nodes is None else self._nodes.find(row)

    def match(self, row: int, host: Host) -> bool:
        """Return whether a row has the name and node of a host."""
        if not self._names.texts.has(row, host.name):
            return False
        node = self.other_node(row)
        return host.node == (host.name if node is None else node)

    def resize(self, rows: int) -> None:
        """Grow to `rows` rows; new rows have no name."""
        self._rows = rows
        self._names.resize(rows)
        if self._nodes is not None:
            self._nodes.resize(rows)

    def add(self, row: int, host: Host) -> None:
        """Record the name and node of a row's host."""
        name = host.name
        self._recent.clear()
        self._names.add(row, name)
        if host.node != name:
            if self._nodes is None:
                self._nodes = RowTexts(self._rows)
            self._nodes.add(row, host.node)
        folded = name.casefold()
        if folded != name:
            self._folded.setdefault(folded, set()).add(name)

    def discard(self, row: int) -> None:
        """Remove the name and node of a row."""
        name = self._names.texts.get(row)
        self._recent.clear()
        if self._nodes is not None and self._nodes.find(row) is not None:
            self._nodes.discard(row)
        if not self._names.discard(row):
            self._unfold(name)

    def only_row(self, name: str) -> int | None:
        """Return the only row of a service host, by exact name; None if it has none or several."""
        row = self._recent.get(name)
        if row is None:
            row = self._names.index.get(name)
            if row is not None:
                if len(self._recent) >= _RECENT_MAX:
                    self._recent.clear()
                self._recent[name] = row
        return row

    def of_name(self, name: str) -> frozenset[int]:
        """Return the rows of a service host, by its exact name."""
        return self._names.rows(name)

    def of_folded_name(self, folded: str) -> frozenset[int]:
        """Return the rows of all service hosts whose case-folded name is `folded`."""
        # A name that is its own folded form has no entry in `_folded`; see `add`.
        rows = self.of_name(folded) if folded.casefold() == folded else frozenset[int]()
        return rows.union(*(self.of_name(name) for name in self._folded.get(folded, ())))

    def of_node(self, node: str) -> frozenset[int]:
        """Return the rows of a node, by its exact name."""
        rows_by_text = self.of_name(node)
        if self._nodes is None:
            return rows_by_text
        # Rows whose name equals the node may have another node.
        mine = (row for row in rows_by_text if self.other_node(row) is None)
        return self._nodes.rows(node).union(mine)

    def _unfold(self, name: str) -> None:
        folded = name.casefold()
        if folded != name:
            names = self._folded[folded]
            names.discard(name)
            if not names:
                del self._folded[folded]
