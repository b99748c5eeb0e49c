"""Who holds what: how every ledger puts consumers and their allocations together."""

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Final, NamedTuple

from berth.adapters.ledger.engine.reallocation import DERIVED_GENERATION
from berth.domain.compute.instance import Instance
from berth.domain.inventory.consumer import INSTANCE_TYPE, Consumer, Holding


class Owner(NamedTuple):
    """What an instance tells of itself as a consumer; times are Unix seconds."""

    project_id: str
    user_id: str
    created_at_s: float
    updated_at_s: float


_owner_of: Final = attrgetter(*Owner._fields)


def owner_of(instance: Instance) -> Owner:
    """Return what an instance tells of itself as a consumer."""
    return Owner._make(_owner_of(instance))


def derived_consumer(uuid: str, owner: Owner | None) -> Consumer:
    """Return a consumer that has no record of its own; `owner` is that of its instance, if any."""
    if owner is None:
        return Consumer(uuid, "", "", generation=DERIVED_GENERATION)
    project_id, user_id, created_at_s, updated_at_s = owner
    return Consumer(
        uuid,
        project_id,
        user_id,
        INSTANCE_TYPE,
        DERIVED_GENERATION,
        created_at_s,
        updated_at_s,
    )


def gathered(rows: Iterable[tuple[Consumer, str, Mapping[str, int]]]) -> list[Holding]:
    """Gather allocations, each with consumer and provider, by consumer and in order of both."""
    holdings: dict[str, tuple[Consumer, dict[str, Mapping[str, int]]]] = {}
    for consumer, provider, amounts in sorted(rows, key=_order):
        holdings.setdefault(consumer.uuid, (consumer, {}))[1][provider] = amounts
    return [Holding(*holding) for holding in holdings.values()]


def _order(row: tuple[Consumer, str, Mapping[str, int]]) -> tuple[str, str]:
    return row[0].uuid, row[1]
