"""Reallocating: what consumers hold is replaced, all of it, for some of them together.

This is how clients of the Placement API claim, move and free. A consumer whose allocations came by
a claim of Berth's own has no record: it counts as one at generation 1, of the type of instances.
"""

from typing import Final

from berth.adapters.ledger.engine.claims import drop_consumer, release, shortages_of
from berth.adapters.ledger.engine.working_set import UnitTransaction, WorkingSet
from berth.domain.inventory.allocation import INSTANCE_TYPE, Allocation
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Cause, Reallocate, Rejected, Share
from berth.domain.revising import revised

DERIVED_GENERATION: Final = 1
"""Generation of a consumer that holds something and has no record."""


def reallocate(draft: UnitTransaction, write: Reallocate) -> Rejected | None:
    """Replace what consumers hold, unless one has changed or room is short.

    Providers that something is allocated of have their generation raised, and those that a
    consumer held which is to hold nothing; those that one merely leaves do not.
    """
    books, shares = draft.books, write.shares
    if len({share.consumer.uuid for share in shares}) < len(shares):
        return Rejected(conflict="a consumer is named twice")
    generations = [_generation_of(books, share.consumer.uuid) for share in shares]
    for share, actual in zip(shares, generations, strict=True):
        if share.is_checked and share.seen != actual:
            return _stale(share, actual)
    taken = [_allocations_of(share) for share in shares]
    before = {
        provider: books.rooms[provider].used
        for share in shares
        for provider in books.held.get(share.consumer.uuid, ())
    }
    for share, allocations in zip(shares, taken, strict=True):
        if books.held.get(share.consumer.uuid):
            release(draft, share.consumer.uuid, raises=not allocations)
    shortages = shortages_of(books, (one for allocations in taken for one in allocations), before)
    if shortages:
        return Rejected(shortages=shortages)
    for share, allocations, actual in zip(shares, taken, generations, strict=True):
        if allocations:
            _hold(draft, share, allocations, actual)
        else:
            drop_consumer(draft, share.consumer.uuid)
    return None


def _generation_of(books: WorkingSet, consumer_uuid: str) -> int | None:
    """Return the generation of a consumer; None when there is none."""
    consumer = books.consumers.get(consumer_uuid)
    if consumer is not None:
        return consumer.generation
    return DERIVED_GENERATION if books.held.get(consumer_uuid) else None


def _stale(share: Share, actual: int | None) -> Rejected:
    uuid = share.consumer.uuid
    conflict = f"consumer {uuid!r} is at generation {actual}, not {share.seen}; read it again"
    return Rejected(conflict=conflict, cause=Cause.CONSUMER_GENERATION, subject=uuid, actual=actual)


def _allocations_of(share: Share) -> list[Allocation]:
    uuid = share.consumer.uuid
    return [
        Allocation(uuid, provider, amounts)
        for provider, amounts in share.allocations.items()
        if amounts
    ]


def _hold(
    draft: UnitTransaction, share: Share, allocations: list[Allocation], actual: int | None
) -> None:
    books, uuid = draft.books, share.consumer.uuid
    for allocation in allocations:
        draft.spend(allocation.provider_uuid, allocation.amounts, raises=True)
    holding = {one.provider_uuid: dict(one.amounts) for one in allocations}
    draft.set(books.held, uuid, holding)
    draft.set(books.dirt.taken, uuid, None)
    changes: dict[str, object] = {"generation": (actual or 0) + 1}
    stored = books.consumers.get(uuid)
    if stored is not None:
        changes["created_at_s"] = stored.created_at_s
    if share.keeps_type and actual is not None:
        changes["consumer_type"] = INSTANCE_TYPE if stored is None else stored.consumer_type
    consumer = revised(share.consumer, **changes)
    draft.set(books.consumers, uuid, consumer)
    draft.set(books.dirt.puts, (Kind.CONSUMER, uuid), consumer)
