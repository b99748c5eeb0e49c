"""The writes that take, free and transfer allocations, applied to the working set."""

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
    """Take the allocations of a claim, or return the rejection.

    This increments the generation of every provider from which something is allocated.
    """
    working_set, claim = tx.working_set, write.claim
    holdings = _holdings(claim.allocations)
    if holdings is None:
        return Rejected(
            conflict=f"claim {claim.key!r} allocates twice from one provider to one consumer; "
            "combine the amounts"
        )
    for consumer_uuid in holdings:
        if working_set.held.get(consumer_uuid):
            return Rejected(
                conflict=f"consumer {consumer_uuid!r} already holds allocations; free them first"
            )
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
    """Return the amounts by consumer, or None if a pair of consumer and provider occurs twice."""
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
    """Return all shortages: amounts that can never be allocated, then sums above what is left.

    Args:
        working_set: the state to check against.
        allocations: all amounts to allocate together.
        before: usage before the unit, by provider and class. Usage up to this amount is accepted
            even if it is above the capacity.
    """
    static: list[Shortage] = []
    asked: dict[tuple[str, str], int] = {}
    for allocation in allocations:
        uuid = allocation.provider_uuid
        capacity = working_set.capacities.get(uuid)
        for name, amount in allocation.amounts.items():
            shortage = _static_shortage(capacity, uuid, name, amount)
            if shortage is None:
                asked[uuid, name] = asked.get((uuid, name), 0) + amount
            else:
                static.append(shortage)
    # Amounts are summed over all allocations, because each may fit alone while all together do not.
    # Amounts that can never be allocated are left out of the sums.
    summed = [
        Shortage(uuid, name, amount, max(left, 0))
        for (uuid, name), amount in asked.items()
        if amount > (left := working_set.capacities[uuid].left(name))
        and not (
            before and _is_no_worse(working_set.capacities[uuid], name, amount, before.get(uuid))
        )
    ]
    return (*static, *summed)


def _static_shortage(
    capacity: ProviderCapacity | None, uuid: str, name: str, amount: int
) -> Shortage | None:
    """Return a shortage if the provider or its inventory never allows an amount; otherwise None."""
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
    """Return whether usage after the allocation is at most the usage before the unit."""
    return before is not None and capacity.used[name] + amount <= before.get(name, 0)


def free(tx: UnitTransaction, write: Free) -> Rejected | None:
    """Release everything that a consumer holds and delete its record.

    If the consumer holds nothing, this has no effect, or is rejected if the consumer must hold
    something.
    """
    uuid = write.consumer_uuid
    if tx.working_set.held.get(uuid):
        release(tx, uuid, raises=False)
        drop_consumer(tx, uuid)
        return None
    return _not_held(uuid) if write.must_hold else None


def _not_held(uuid: str) -> Rejected:
    conflict = f"consumer {uuid!r} holds no allocations"
    return Rejected(conflict=conflict, cause=RejectionCause.NOT_HELD, subject=uuid)


def transfer(tx: UnitTransaction, write: TransferAllocations) -> Rejected | None:
    """Transfer everything that a consumer holds to another one, or return the rejection.

    A consumer that holds nothing is treated as by `free`.
    """
    working_set, source, target = tx.working_set, write.consumer_uuid, write.to.uuid
    holding = working_set.held.get(source)
    if not holding:
        return _not_held(source) if write.must_hold else None
    if source == target or working_set.held.get(target):
        return Rejected(conflict=f"consumer {target!r} already holds allocations; free them first")
    # Usage does not change, so no inventory row is written and no generation is incremented.
    tx.drop(working_set.held, source)
    tx.set(working_set.change_set.freed, source, None)
    drop_consumer(tx, source)
    tx.set(working_set.held, target, holding)
    tx.set(working_set.change_set.taken, target, None)
    # An instance describes itself as a consumer; a record would only repeat it.
    if write.to.consumer_type != INSTANCE_TYPE:
        consumer = fast_replace(write.to, generation=1)
        tx.set(working_set.consumers, target, consumer)
        tx.set(working_set.change_set.puts, (Kind.CONSUMER, target), consumer)
    return None


def release(tx: UnitTransaction, consumer_uuid: str, *, raises: bool) -> None:
    """Release everything that a consumer holds; `raises` increments the providers' generations."""
    working_set = tx.working_set
    for provider_uuid, amounts in working_set.held[consumer_uuid].items():
        less = {name: -amount for name, amount in amounts.items()}
        tx.spend(provider_uuid, less, raises=raises)
    tx.drop(working_set.held, consumer_uuid)
    tx.set(working_set.change_set.freed, consumer_uuid, None)


def drop_consumer(tx: UnitTransaction, consumer_uuid: str) -> None:
    """Delete the record of a consumer, if it has one."""
    working_set = tx.working_set
    if consumer_uuid in working_set.consumers:
        tx.drop(working_set.consumers, consumer_uuid)
        tx.set(working_set.change_set.puts, (Kind.CONSUMER, consumer_uuid), None)
