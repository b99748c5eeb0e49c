"""Reads hosts from the replica: in pages, by node, and with their availability zones."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence

from berth.api.parts import ApiParts
from berth.domain.errors import InvalidInputError, NotFoundError
from berth.services.fleet.hosts import HostView, host_view

# A listing reads this many hosts before other requests get a turn.
_CHUNK = 256


def host_uuids(parts: ApiParts) -> list[str]:
    """Return the uuids of all hosts, ordered by name and node."""
    table = parts.replica.hosts
    rank = table.rank
    rows = sorted((int(row) for row in table.alive_rows()), key=lambda row: int(rank[row]))
    return [table.uuid(row) for row in rows]


async def views_of(parts: ApiParts, uuids: Sequence[str]) -> AsyncIterator[list[HostView]]:
    """Yield views of hosts in chunks, and let other tasks run between chunks.

    Hosts that are removed in the meantime are omitted.
    """
    # Uuids stay valid across the pauses; rows do not, since the feed may reassign them.
    for start in range(0, len(uuids), _CHUNK):
        yield list(_views(parts, uuids[start : start + _CHUNK]))
        await asyncio.sleep(0)


def _views(parts: ApiParts, uuids: Sequence[str]) -> Iterator[HostView]:
    table = parts.replica.hosts
    for uuid in uuids:
        row = table.row_of(uuid)
        if row is not None:
            yield host_view(table, row)


def page_after(uuids: Sequence[str], marker: str | None, limit: int | None) -> Sequence[str]:
    """Return the page of uuids that follows the marker, or the first page if the marker is None.

    Args:
        uuids: the whole list.
        marker: the last uuid of the previous page, or None.
        limit: maximum number of uuids, or None for all that follow.

    Raises:
        InvalidInputError: no host has the marker's uuid.
    """
    start = 0
    if marker is not None:
        if marker not in uuids:
            raise InvalidInputError("marker", f"{marker[:80]!r} is not the uuid of a host")
        start = uuids.index(marker) + 1
    return uuids[start:] if limit is None else uuids[start : start + limit]


def zones_of(parts: ApiParts, host: str) -> list[str]:
    """Return the sorted availability zones of a host, or the default zone if it is in none."""
    table = parts.replica.hosts
    zones = {zone for row in table.host_names.of_name(host) for zone in table.zones.get(row)}
    return sorted(zones) or [parts.default_zone]


def zone_of(parts: ApiParts, host: str) -> str:
    """Return the availability zones of a host, as in `zones_of`, joined by commas."""
    return ",".join(zones_of(parts, host))


def host_of_node(parts: ApiParts, node: str) -> str:
    """Return the name of the host that a node belongs to.

    Raises:
        NotFoundError: no host has the node.
    """
    table = parts.replica.hosts
    for row in table.alive_rows():
        if table.node(int(row)) == node:
            return table.name(int(row))
    raise NotFoundError("hypervisor", node)
