"""Lists of the ledger that may be long, read page by page."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Final

from berth.domain.compute.instance import Instance
from berth.domain.compute.migration import Migration
from berth.ports.ledger import InstanceQuery, Ledger, MigrationQuery

_PAGE: Final = 1000


async def every_instance(
    ledger: Ledger, query: InstanceQuery, page: int = _PAGE
) -> AsyncIterator[Instance]:
    """Yield all instances that match a query, newest first, in reads of `page` instances.

    The query's `limit` is ignored. Instances that begin to match meanwhile may be missing.

    Raises:
        NotFoundError: the query's marker does not exist.
        UnavailableError: the ledger cannot be reached.
    """
    query = replace(query, limit=page)
    while True:
        found = await ledger.instances(query)
        for instance in found:
            yield instance
        if len(found) < page:
            return
        query = replace(query, marker=found[-1].uuid)


async def every_migration(
    ledger: Ledger, query: MigrationQuery, page: int = _PAGE
) -> AsyncIterator[Migration]:
    """Yield all migrations that match a query; see `every_instance`."""
    query = replace(query, limit=page)
    while True:
        found = await ledger.migrations(query)
        for migration in found:
            yield migration
        if len(found) < page:
            return
        query = replace(query, marker=found[-1].uuid)
