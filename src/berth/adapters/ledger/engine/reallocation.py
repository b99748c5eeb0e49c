"""The write that replaces all allocations of several consumers together.

Clients of the Placement API claim, move and free resources with it. A consumer whose allocations
come from Berth's own claims has no record; it is treated as a consumer of the type INSTANCE at
generation 1.
"""

from typing import Final

from berth.adapters.ledger.engine.claims import drop_consumer, release, shortages_of
from berth.adapters.ledger.engine.working_set import UnitTransaction, WorkingSet
from berth.domain.fast_replace import fast_replace
from berth.domain.inventory.allocation import INSTANCE_TYPE, Allocation
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import ConsumerUpdate, Reallocate, Rejected, RejectionCause

DERIVED_GENERATION: Final = 1
"""The generation of a consumer that holds allocations and has no record."""


def reallocate(tx: UnitTransaction, write: Reallocate) -> Rejected | None:
    """Replace the allocations of consumers, or return the rejection.

    This increments the generation of each provider from which something is allocated, and of each
    provider whose consumer is left with nothing. As in Placement, a provider keeps its generation
    if its consumer only moves to other providers.
    """
    working_set, shares = tx.working_set, write.shares
    uuids = [share.consumer.uuid for share in shares]
    if len(set(uuids)) < len(uuids):
        twice = next(uuid for uuid in uuids if uuids.count(uuid) > 1)
        return Rejected(conflict=f"consumer {twice!r} is named twice; combine its allocations")
    generations = [_generation_of(working_set, share.consumer.uuid) for share in shares]
    for share, actual in zip(shares, generations, strict=True):
        if share.is_checked and share.seen != actual:
            return _stale(share, actual)
    taken = [_allocations_of(share) for share in shares]
    before = {
        provider: working_set.capacities[provider].used
        for share in shares
        for provider in working_set.held.get(share.consumer.uuid, ())
    }
    # Everything is released before the check, so that consumers can swap places. If the check
    # fails, the undo log restores it.
    for share, allocations in zip(shares, taken, strict=True):
        if working_set.held.get(share.consumer.uuid):
            release(tx, share.consumer.uuid, raises=not allocations)
    shortages = shortages_of(
        working_set, (one for allocations in taken for one in allocations), before
    )
    if shortages:
        return Rejected(shortages=shortages)
    for share, allocations, actual in zip(shares, taken, generations, strict=True):
        if allocations:
            _hold(tx, share, allocations, actual)
        else:
            drop_consumer(tx, share.consumer.uuid)
    return None


def _generation_of(working_set: WorkingSet, consumer_uuid: str) -> int | None:
    """Return the generation of a consumer, or None if it does not exist."""
    consumer = working_set.consumers.get(consumer_uuid)
    if consumer is not None:
        return consumer.generation
    return DERIVED_GENERATION if working_set.held.get(consumer_uuid) else None


def _stale(share: ConsumerUpdate, actual: int | None) -> Rejected:
    uuid = share.consumer.uuid
    found = "does not exist" if actual is None else f"is at generation {actual}"
    wanted = "no consumer" if share.seen is None else f"generation {share.seen}"
    conflict = f"consumer {uuid!r} {found}, but {wanted} was expected; read it again"
    return Rejected(
        conflict=conflict, cause=RejectionCause.CONSUMER_GENERATION, subject=uuid, actual=actual
    )


def _allocations_of(share: ConsumerUpdate) -> list[Allocation]:
    uuid = share.consumer.uuid
    return [
        Allocation(uuid, provider, amounts)
        for provider, amounts in share.allocations.items()
        if amounts
    ]


def _hold(
    tx: UnitTransaction, share: ConsumerUpdate, allocations: list[Allocation], actual: int | None
) -> None:
    working_set, uuid = tx.working_set, share.consumer.uuid
    for allocation in allocations:
        tx.spend(allocation.provider_uuid, allocation.amounts, raises=True)
    holding = {one.provider_uuid: dict(one.amounts) for one in allocations}
    tx.set(working_set.held, uuid, holding)
    tx.set(working_set.change_set.taken, uuid, None)
    changes: dict[str, object] = {"generation": (actual or 0) + 1}
    stored = working_set.consumers.get(uuid)
    if stored is not None:
        changes["created_at_s"] = stored.created_at_s
    if share.keeps_type and actual is not None:
        changes["consumer_type"] = INSTANCE_TYPE if stored is None else stored.consumer_type
    consumer = fast_replace(share.consumer, **changes)
    tx.set(working_set.consumers, uuid, consumer)
    tx.set(working_set.change_set.puts, (Kind.CONSUMER, uuid), consumer)
