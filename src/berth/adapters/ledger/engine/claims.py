"""Taking and freeing: what claims do to the books, and what stands in the way of amounts."""

from collections.abc import Iterable, Mapping, Sequence

from berth.adapters.ledger.engine.working_set import (
    HeldAmounts,
    ProviderCapacity,
    UnitTransaction,
    WorkingSet,
)
from berth.domain.fast_replace import fast_replace
from berth.domain.inventory.allocation import INSTANCE_TYPE, Allocation, Shortage, ShortageRule
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Free, Rejected, RejectionCause, Take, TransferAllocations


def take(tx: UnitTransaction, write: Take) -> Rejected | None:
    """Commit a claim; it raises the generation of every provider that it takes of."""
    working_set, claim = tx.working_set, write.claim
    holdings = _holdings(claim.allocations)
    if holdings is None:
        return Rejected(conflict=f"claim {claim.key!r} names a consumer and provider twice")
    for consumer_uuid in holdings:
        if working_set.held.get(consumer_uuid):
            return Rejected(conflict=f"consumer {consumer_uuid!r} holds allocations already")
    shortages = shortages_of(working_set, claim.allocations)
    if shortages:
        return Rejected(shortages=shortages)
    for consumer_uuid, holding in holdings.items():
        tx.set(working_set.held, consumer_uuid, holding)
        tx.set(working_set.change_set.taken, consumer_uuid, None)
    for allocation in claim.allocations:
        tx.spend(allocation.provider_uuid, allocation.amounts, raises=True)
    tx.set(working_set.claimed, claim.key, tx.version)
    tx.set(working_set.change_set.claimed, claim.key, tx.version)
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
    working_set: WorkingSet,
    allocations: Iterable[Allocation],
    before: Mapping[str, Mapping[str, int]] | None = None,
) -> tuple[Shortage, ...]:
    """Find what is short: first amounts that no one may ask for, then sums above the room.

    Args:
        working_set: as it stands.
        allocations: what is to be taken, all together.
        before: by provider and class, an amount in use that may be reached again, though it is
            above the capacity.
    """
    never: list[Shortage] = []
    asked: dict[tuple[str, str], int] = {}
    for allocation in allocations:
        uuid = allocation.provider_uuid
        capacity = working_set.capacities.get(uuid)
        for name, amount in allocation.amounts.items():
            shortage = _static_shortage(capacity, uuid, name, amount)
            if shortage is None:
                asked[uuid, name] = asked.get((uuid, name), 0) + amount
            else:
                never.append(shortage)
    summed = [
        Shortage(uuid, name, amount, max(left, 0))
        for (uuid, name), amount in asked.items()
        if amount > (left := working_set.capacities[uuid].left(name))
        and not (
            before and _is_no_worse(working_set.capacities[uuid], name, amount, before.get(uuid))
        )
    ]
    return (*never, *summed)


def _static_shortage(
    capacity: ProviderCapacity | None, uuid: str, name: str, amount: int
) -> Shortage | None:
    """Tell why nobody may ever ask for an amount."""
    if capacity is None:
        return Shortage(uuid, name, amount, 0, ShortageRule.NO_PROVIDER)
    limits = capacity.limits.get(name)
    if limits is None:
        return Shortage(uuid, name, amount, 0, ShortageRule.NO_INVENTORY)
    if limits.allow(amount):
        return None
    left = max(min(limits.capacity - capacity.used[name], limits.unit_max), 0)
    return Shortage(uuid, name, amount, left if amount > left else 0, ShortageRule.UNITS)


def _is_no_worse(
    capacity: ProviderCapacity, name: str, amount: int, before: Mapping[str, int] | None
) -> bool:
    return before is not None and capacity.used[name] + amount <= before.get(name, 0)


def free(tx: UnitTransaction, write: Free) -> Rejected | None:
    """Release all that a consumer holds, and forget what clients said of it."""
    uuid = write.consumer_uuid
    if tx.working_set.held.get(uuid):
        release(tx, uuid, raises=False)
        drop_consumer(tx, uuid)
        return None
    return _not_held(uuid) if write.must_hold else None


def _not_held(uuid: str) -> Rejected:
    conflict = f"consumer {uuid!r} holds nothing"
    return Rejected(conflict=conflict, cause=RejectionCause.NOT_HELD, subject=uuid)


def hand_over(tx: UnitTransaction, write: TransferAllocations) -> Rejected | None:
    """Have one consumer hold what another one held; nothing of it is free in between."""
    working_set, giver, taker = tx.working_set, write.consumer_uuid, write.to.uuid
    holding = working_set.held.get(giver)
    if not holding:
        return _not_held(giver) if write.must_hold else None
    if giver == taker or working_set.held.get(taker):
        return Rejected(conflict=f"consumer {taker!r} holds allocations already")
    tx.drop(working_set.held, giver)
    tx.set(working_set.change_set.freed, giver, None)
    drop_consumer(tx, giver)
    tx.set(working_set.held, taker, holding)
    tx.set(working_set.change_set.taken, taker, None)
    if write.to.consumer_type != INSTANCE_TYPE:
        consumer = fast_replace(write.to, generation=1)
        tx.set(working_set.consumers, taker, consumer)
        tx.set(working_set.change_set.puts, (Kind.CONSUMER, taker), consumer)
    return None


def release(tx: UnitTransaction, consumer_uuid: str, *, raises: bool) -> None:
    """Give back what a consumer holds of each provider."""
    working_set = tx.working_set
    for provider_uuid, amounts in working_set.held[consumer_uuid].items():
        less = {name: -amount for name, amount in amounts.items()}
        tx.spend(provider_uuid, less, raises=raises)
    tx.drop(working_set.held, consumer_uuid)
    tx.set(working_set.change_set.freed, consumer_uuid, None)


def drop_consumer(tx: UnitTransaction, consumer_uuid: str) -> None:
    """Drop the record of a consumer, if it has one."""
    working_set = tx.working_set
    if consumer_uuid in working_set.consumers:
        tx.drop(working_set.consumers, consumer_uuid)
        tx.set(working_set.change_set.puts, (Kind.CONSUMER, consumer_uuid), None)
