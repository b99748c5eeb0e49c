"""Taking and freeing: what claims do to the books, and what stands in the way of amounts."""

from collections.abc import Iterable, Mapping, Sequence

from berth.adapters.ledger.engine.working_set import (
    HeldAmounts,
    ProviderCapacity,
    UnitTransaction,
    WorkingSet,
)
from berth.domain.inventory.allocation import INSTANCE_TYPE, Allocation, Shortage, ShortageRule
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Cause, Free, HandOver, Rejected, Take
from berth.domain.revising import revised


def take(draft: UnitTransaction, write: Take) -> Rejected | None:
    """Commit a claim; it raises the generation of every provider that it takes of."""
    books, claim = draft.books, write.claim
    holdings = _holdings(claim.allocations)
    if holdings is None:
        return Rejected(conflict=f"claim {claim.key!r} names a consumer and provider twice")
    for consumer_uuid in holdings:
        if books.held.get(consumer_uuid):
            return Rejected(conflict=f"consumer {consumer_uuid!r} holds allocations already")
    shortages = shortages_of(books, claim.allocations)
    if shortages:
        return Rejected(shortages=shortages)
    for consumer_uuid, holding in holdings.items():
        draft.set(books.held, consumer_uuid, holding)
        draft.set(books.dirt.taken, consumer_uuid, None)
    for allocation in claim.allocations:
        draft.spend(allocation.provider_uuid, allocation.amounts, raises=True)
    draft.set(books.claimed, claim.key, draft.version)
    draft.set(books.dirt.claimed, claim.key, draft.version)
    return None


def _holdings(allocations: Sequence[Allocation]) -> dict[str, HeldAmounts] | None:
    holdings: dict[str, dict[str, dict[str, int]]] = {}
    for allocation in allocations:
        holding = holdings.setdefault(allocation.consumer_uuid, {})
        if allocation.provider_uuid in holding:
            return None
        holding[allocation.provider_uuid] = dict(allocation.amounts)
    return dict(holdings)


def shortages_of(
    books: WorkingSet,
    allocations: Iterable[Allocation],
    before: Mapping[str, Mapping[str, int]] | None = None,
) -> tuple[Shortage, ...]:
    """Find what is short: first amounts that no one may ask for, then sums above the room.

    Args:
        books: as they stand.
        allocations: what is to be taken, all together.
        before: by provider and class, an amount in use that may be reached again, though it is
            above the capacity.
    """
    never: list[Shortage] = []
    asked: dict[tuple[str, str], int] = {}
    for allocation in allocations:
        uuid = allocation.provider_uuid
        room = books.rooms.get(uuid)
        for name, amount in allocation.amounts.items():
            shortage = _never(room, uuid, name, amount)
            if shortage is None:
                asked[uuid, name] = asked.get((uuid, name), 0) + amount
            else:
                never.append(shortage)
    summed = [
        Shortage(uuid, name, amount, max(left, 0))
        for (uuid, name), amount in asked.items()
        if amount > (left := books.rooms[uuid].left(name))
        and not (before and _is_no_worse(books.rooms[uuid], name, amount, before.get(uuid)))
    ]
    return (*never, *summed)


def _never(room: ProviderCapacity | None, uuid: str, name: str, amount: int) -> Shortage | None:
    """Tell why nobody may ever ask for an amount."""
    if room is None:
        return Shortage(uuid, name, amount, 0, ShortageRule.NO_PROVIDER)
    limits = room.limits.get(name)
    if limits is None:
        return Shortage(uuid, name, amount, 0, ShortageRule.NO_INVENTORY)
    if limits.allow(amount):
        return None
    left = max(min(limits.capacity - room.used[name], limits.unit_max), 0)
    return Shortage(uuid, name, amount, left if amount > left else 0, ShortageRule.UNITS)


def _is_no_worse(
    room: ProviderCapacity, name: str, amount: int, before: Mapping[str, int] | None
) -> bool:
    return before is not None and room.used[name] + amount <= before.get(name, 0)


def free(draft: UnitTransaction, write: Free) -> Rejected | None:
    """Release all that a consumer holds, and forget what clients said of it."""
    uuid = write.consumer_uuid
    if draft.books.held.get(uuid):
        release(draft, uuid, raises=False)
        drop_consumer(draft, uuid)
        return None
    return _not_held(uuid) if write.must_hold else None


def _not_held(uuid: str) -> Rejected:
    conflict = f"consumer {uuid!r} holds nothing"
    return Rejected(conflict=conflict, cause=Cause.NOT_HELD, subject=uuid)


def hand_over(draft: UnitTransaction, write: HandOver) -> Rejected | None:
    """Have one consumer hold what another one held; nothing of it is free in between."""
    books, giver, taker = draft.books, write.consumer_uuid, write.to.uuid
    holding = books.held.get(giver)
    if not holding:
        return _not_held(giver) if write.must_hold else None
    if giver == taker or books.held.get(taker):
        return Rejected(conflict=f"consumer {taker!r} holds allocations already")
    draft.drop(books.held, giver)
    draft.set(books.dirt.freed, giver, None)
    drop_consumer(draft, giver)
    draft.set(books.held, taker, holding)
    draft.set(books.dirt.taken, taker, None)
    if write.to.consumer_type != INSTANCE_TYPE:
        consumer = revised(write.to, generation=1)
        draft.set(books.consumers, taker, consumer)
        draft.set(books.dirt.puts, (Kind.CONSUMER, taker), consumer)
    return None


def release(draft: UnitTransaction, consumer_uuid: str, *, raises: bool) -> None:
    """Give back what a consumer holds of each provider."""
    books = draft.books
    for provider_uuid, amounts in books.held[consumer_uuid].items():
        less = {name: -amount for name, amount in amounts.items()}
        draft.spend(provider_uuid, less, raises=raises)
    draft.drop(books.held, consumer_uuid)
    draft.set(books.dirt.freed, consumer_uuid, None)


def drop_consumer(draft: UnitTransaction, consumer_uuid: str) -> None:
    """Drop the record of a consumer, if it has one."""
    books = draft.books
    if consumer_uuid in books.consumers:
        draft.drop(books.consumers, consumer_uuid)
        draft.set(books.dirt.puts, (Kind.CONSUMER, consumer_uuid), None)
