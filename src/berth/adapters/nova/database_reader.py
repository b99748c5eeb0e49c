"""The reader of a Nova cloud from its databases, which are opened for reading only."""

from berth.adapters.nova.api_database import read_api_database
from berth.adapters.nova.cell_database import CellRecords, read_cell_database
from berth.adapters.nova.nova_tables import DatabaseUrls, opened
from berth.adapters.nova.placement_database import read_placement_database
from berth.ports.nova import NovaCloud


class NovaDatabaseReader:
    """Reads a Nova cloud from its databases; see the port `NovaReader`.

    Each database is read in one transaction that refuses writes. Placement comes last, as with the
    API (`NovaApiReader`).

    Args:
        urls: the databases.
    """

    def __init__(self, urls: DatabaseUrls) -> None:
        self._urls = urls

    async def read(self) -> NovaCloud:
        """See `NovaReader.read`."""
        async with opened(self._urls.api) as tables:
            shared = await read_api_database(tables)
        cells: list[CellRecords] = []
        for url in self._urls.cells:
            async with opened(url) as tables:
                cells.append(await read_cell_database(tables, shared.requests))
        async with opened(self._urls.placement) as tables:
            placement = await read_placement_database(tables)
        return NovaCloud(
            source="the databases of Nova and Placement",
            hosts=tuple(host for cell in cells for host in cell.hosts),
            services=tuple(service for cell in cells for service in cell.services),
            providers=tuple(placement.providers),
            resource_classes=tuple(placement.resource_classes),
            traits=tuple(placement.traits),
            aggregates=tuple(shared.aggregates),
            flavors=tuple(shared.flavors),
            flavor_accesses=tuple(shared.flavor_accesses),
            server_groups=tuple(shared.server_groups),
            members=shared.members,
            servers=tuple(server for cell in cells for server in cell.servers),
            quotas=tuple(shared.quotas),
            key_rings=tuple(shared.key_rings),
            holdings=tuple(placement.holdings),
            findings=(
                *shared.findings,
                *(finding for cell in cells for finding in cell.findings),
            ),
        )

    async def close(self) -> None:
        """See `NovaReader.close`; the connections are closed after each read."""
