"""Hosts by what they are called: records, uuids, names and nodes by row, and rows by these."""

from collections.abc import Iterable
from typing import TypeAlias

from berth.domain.compute.host import Host
from berth.domain.errors import NotFoundError
from berth.tables.columnar.host_names import HostNames
from berth.tables.columnar.uuids import HostUuids
from berth.tables.host.fixed import FixedColumns

Identity: TypeAlias = tuple[str, str, str]
"""Name, node and uuid of a host, by which hosts are sorted."""

_MADE_MAX = 512
_CALLED_MAX = 1_024
"""Records and identities that are kept once they were made: the best hosts are asked for again."""


class NamedHosts(FixedColumns):
    """Look-ups of the host table by uuid, name and node, and of these by row.

    Whoever asks for the name, node or uuid of a row without a host gets a NotFoundError.
    """

    _uuids: HostUuids
    _names: HostNames
    _made: dict[int, Host]
    _called: dict[int, Identity]

    def host(self, row: int) -> Host:
        """Return the host in a row: a record made of the columns, which takes some microseconds.

        Who needs one attribute asks for that (`uuid`, `name`, `node`, `cell_name`, columns).

        Raises:
            NotFoundError: the row is unused.
        """
        made = self._made.get(row)
        if made is not None:
            return made
        name, node, uuid = self.identity(row)
        host = self._columns.host(row, uuid, name, node)
        if len(self._made) >= _MADE_MAX:
            self._made.clear()
        self._made[row] = host
        return host

    def uuid(self, row: int) -> str:
        """Return the uuid of a row's host."""
        return self.identity(row)[2]

    def name(self, row: int) -> str:
        """Return the name of a row's host."""
        return self.identity(row)[0]

    def node(self, row: int) -> str:
        """Return the node of a row's host."""
        return self.identity(row)[1]

    def cell_name(self, row: int) -> str:
        """Return the cell of a row's host."""
        return self._columns.cell_name(row)

    def names(self, rows: Iterable[int]) -> tuple[str, ...]:
        """Return the host names of rows."""
        return tuple(self.name(int(row)) for row in rows)

    def row_of(self, host_uuid: str) -> int | None:
        """Return the row of a host, by its uuid."""
        return self._uuids.row_of(host_uuid)

    def rows_of_name(self, name: str) -> frozenset[int]:
        """Return the rows of a service host, by its exact name."""
        return self._names.of_name(name)

    def rows_of_folded_name(self, folded: str) -> frozenset[int]:
        """Return the rows of every service host whose name, case folded, is `folded`."""
        return self._names.of_folded_name(folded)

    def rows_of_node(self, node: str) -> frozenset[int]:
        """Return the rows of a node, by its exact name."""
        return self._names.of_node(node)

    def find(self, name: str, node: str | None) -> str | None:
        """Return the uuid of the host with that name and node (None: its first), or None."""
        row = self._names.only_row(name)
        rows = self._names.of_name(name) if row is None else (row,)
        found = sorted(map(self.identity, rows))
        return next((uuid for _, mine, uuid in found if node in (None, mine)), None)

    def identity(self, row: int) -> Identity:
        """Return (name, node, uuid) of a row's host, by which hosts are sorted.

        Raises:
            NotFoundError: the row is unused.
        """
        called = self._called.get(row)
        if called is None:
            if not 0 <= row < len(self) or not self._columns.alive.item(row):
                raise NotFoundError("host row", str(row))
            name, node = self._names.name(row), self._names.other_node(row)
            called = name, name if node is None else node, self._uuids.get(row)
            if len(self._called) >= _CALLED_MAX:
                self._called.clear()
            self._called[row] = called
        return called

    def _forget(self, row: int) -> None:
        """Forget what was made of a row, as it is about to change."""
        self._made.pop(row, None)
        self._called.pop(row, None)
