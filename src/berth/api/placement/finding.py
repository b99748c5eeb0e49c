"""Lookup of the objects that a request names, in tables that include every acknowledged write."""

from typing import NamedTuple

from berth.api.placement.actions import PlacementCall
from berth.api.placement.errors import PlacementError, no_provider
from berth.domain.inventory.provider import Provider
from berth.tables.provider.providers import ProviderTable
from berth.tables.vocabulary import Vocabulary


class Newest(NamedTuple):
    """The current tables; valid until the next `await`, which may apply further changes."""

    table: ProviderTable
    vocabulary: Vocabulary


async def newest_of(ask: PlacementCall) -> Newest:
    """Catch up with the ledger and return the tables.

    Placement promises that a read sees every acknowledged write, including those of other
    processes.
    """
    await ask.parts.follower.catch_up()
    return Newest(ask.parts.replica.table, ask.parts.replica.vocabulary)


async def provider_of(ask: PlacementCall, missing: PlacementError | None = None) -> Provider:
    """Return the provider that the path names.

    Args:
        ask: the request.
        missing: the error to raise for an unknown provider; None for the usual one.

    Raises:
        PlacementError: 404, the provider is unknown.
    """
    uuid = ask.key("uuid")
    table = (await newest_of(ask)).table
    row = table.row_of(uuid)
    if row is None:
        raise missing or no_provider(uuid)
    return table.record(row)
