"""Applies units of writes to a working set, in the same way for all ledgers.

An adapter that commits a batch of units

1. loads the keys named by `required_keys` into a `WorkingSet`;
2. calls `apply_units`, which decides unit by unit, in order, and updates the working set as if each
   committed unit had been stored immediately;
3. writes `WorkingSet.change_set` to its store, in the transaction that loaded the keys.

Capacity is therefore summed over the whole batch, and every store commits and rejects the same
units.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from berth.adapters.ledger.engine.claims import free, take, transfer
from berth.adapters.ledger.engine.quota_counts import check_quota, count_in_unit, uncount_in_unit
from berth.adapters.ledger.engine.reallocation import reallocate
from berth.adapters.ledger.engine.working_set import (
    InventoryLimits,
    ProviderCapacity,
    RequiredKeys,
    UnitTransaction,
    WorkingSet,
    exclusive_guard_key,
    shared_guard_key,
)
from berth.domain.compute.instance import Instance
from berth.domain.fast_replace import fast_replace
from berth.domain.inventory.allocation import Consumer
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory
from berth.domain.ledger.change import HostsAlive, RecordRemoved
from berth.domain.ledger.record import KINDS, KINDS_NOT_IN_FEED, Kind, key_of
from berth.domain.ledger.write import (
    Add,
    Committed,
    Free,
    Guard,
    Heartbeats,
    Outcome,
    Put,
    QuotaCheck,
    Reallocate,
    Rejected,
    RejectionCause,
    Remove,
    ReplaceProvider,
    Take,
    TransferAllocations,
    Unit,
    Write,
)
from berth.domain.zones.zone import RemoteInstance


def required_keys(units: Iterable[Unit]) -> RequiredKeys:
    """Return every key that must be loaded before these units can be applied."""
    required = RequiredKeys()
    for unit in units:
        for write in unit:
            _KEY_COLLECTORS[type(write)](required, write)
    return required


def apply_units(working_set: WorkingSet, units: Iterable[Unit]) -> list[Outcome]:
    """Apply units to the working set, in order, and return their outcomes."""
    return [apply_unit(working_set, unit) for unit in units]


def _require_claim(required: RequiredKeys, take: Take) -> None:
    required.claim_keys.add(take.claim.key)
    for allocation in take.claim.allocations:
        required.consumers.add(allocation.consumer_uuid)
        required.providers.add(allocation.provider_uuid)


def _require_put(required: RequiredKeys, write: Put) -> None:
    record = write.record
    if isinstance(record, Instance):
        required.record(Kind.INSTANCE, record.uuid)
    elif isinstance(record, Provider):
        required.providers.add(record.uuid)


def _require_add(required: RequiredKeys, write: Add) -> None:
    record = write.record
    if isinstance(record, Provider):
        required.providers.add(record.uuid)
    else:
        required.record(KINDS[type(record)], key_of(record))


def _require_removal(required: RequiredKeys, write: Remove) -> None:
    kind, key = write.kind, write.key
    if kind is Kind.PROVIDER:
        required.providers.add(key)
        # A provider that belongs to a host is removed with or after the host.
        required.record(Kind.HOST, key)
        return
    required.record(kind, key)
    if kind is Kind.INSTANCE:
        required.consumers.add(key)


def _require_consumer(required: RequiredKeys, write: Free) -> None:
    required.consumers.add(write.consumer_uuid)
    required.record(Kind.CONSUMER, write.consumer_uuid)


def _require_both_consumers(required: RequiredKeys, write: TransferAllocations) -> None:
    for uuid in (write.consumer_uuid, write.to.uuid):
        required.consumers.add(uuid)
        required.record(Kind.CONSUMER, uuid)


def _require_shares(required: RequiredKeys, write: Reallocate) -> None:
    for share in write.shares:
        required.consumers.add(share.consumer.uuid)
        required.record(Kind.CONSUMER, share.consumer.uuid)
        required.providers.update(share.allocations)


def _require_revised(required: RequiredKeys, write: ReplaceProvider) -> None:
    required.providers.add(write.record.uuid)


def _require_services(required: RequiredKeys, write: Heartbeats) -> None:
    for host in write.hosts:
        required.record(Kind.SERVICE, host)


def _require_guard(required: RequiredKeys, write: Guard) -> None:
    required.claim_keys.add(exclusive_guard_key(write.name))
    required.claim_keys.add(shared_guard_key(write.name))


def _require_count(required: RequiredKeys, write: QuotaCheck) -> None:
    required.projects.add(write.project_id)


_KEY_COLLECTORS: Final[Mapping[type[Write], Callable[[RequiredKeys, Any], None]]] = {
    Take: _require_claim,
    Put: _require_put,
    Add: _require_add,
    Remove: _require_removal,
    Free: _require_consumer,
    TransferAllocations: _require_both_consumers,
    Heartbeats: _require_services,
    Guard: _require_guard,
    ReplaceProvider: _require_revised,
    Reallocate: _require_shares,
    QuotaCheck: _require_count,
}


def apply_unit(working_set: WorkingSet, unit: Unit) -> Outcome:
    """Apply one unit and return its outcome; a rejected unit leaves the working set unchanged."""
    # The claim keys are checked first: a retry of a committed unit must get its first outcome,
    # although its other writes would now conflict with what the unit itself has stored.
    earlier = _check_claim_keys(working_set, unit)
    if earlier is not None:
        return earlier
    tx = UnitTransaction(working_set, unit)
    for write in unit:
        refusal = _HANDLERS[type(write)](tx, write)
        if refusal is not None:
            tx.undo()
            return refusal
    return tx.commit()


def _check_claim_keys(working_set: WorkingSet, unit: Unit) -> Outcome | None:
    """Return the outcome that the claim keys of a unit determine, or None if they are all new.

    The keys determine it if the unit was committed before, or if they conflict.
    """
    keys = [write.claim.key for write in unit if type(write) is Take]
    if not keys:
        return None
    version = working_set.claimed.get(keys[0])
    if len(keys) > 1:
        if len(set(keys)) < len(keys):
            return Rejected(
                conflict=f"claims of one unit must have different keys, but its keys are "
                f"{', '.join(keys)}"
            )
        # A unit commits all its claims in one version, so claims with different versions belong to
        # different units. This unit can then be neither committed nor reported as a repetition.
        if any(working_set.claimed.get(key) != version for key in keys):
            return Rejected(
                conflict="some of the unit's claims were already committed by another unit; "
                "give the claims new keys"
            )
    return None if version is None else Committed(version, repeated=True)


def _conflict(kind: Kind, key: str, why: str) -> Rejected:
    return Rejected(conflict=f"{kind} {key!r} {why}")


def _exists(working_set: WorkingSet, kind: Kind, key: str) -> bool:
    return (
        key in working_set.capacities
        if kind is Kind.PROVIDER
        else (kind, key) in working_set.revisions
    )


# --- records ---

_DERIVED_ONLY: Final = "is written only together with its allocations, not by itself"


def _add(tx: UnitTransaction, write: Add) -> Rejected | None:
    record = write.record
    kind, key = KINDS[type(record)], key_of(record)
    if _exists(tx.working_set, kind, key):
        return _conflict(kind, key, "already exists")
    return _put(tx, write)


def _put(tx: UnitTransaction, write: Put | Add) -> Rejected | None:
    record = write.record
    if isinstance(record, Instance):
        return _put_instance(tx, record)
    if isinstance(record, Provider):
        _put_provider(tx, record)
        return None
    working_set, kind, key = tx.working_set, KINDS[type(record)], key_of(record)
    if isinstance(record, Consumer):
        return _conflict(kind, key, _DERIVED_ONLY)
    ref = (kind, key)
    tx.set(working_set.revisions, ref, 1)
    if kind is Kind.SERVICE:
        # A heartbeat earlier in the batch would override the new record's `last_seen_s`.
        tx.drop(working_set.change_set.seen, key)
    tx.set(working_set.change_set.puts, ref, record)
    if kind not in KINDS_NOT_IN_FEED:
        tx.events.append(record)
    if isinstance(record, RemoteInstance) and working_set.counted:
        count_in_unit(tx, record)
    return None


def _put_instance(tx: UnitTransaction, instance: Instance) -> Rejected | None:
    working_set, ref = tx.working_set, (Kind.INSTANCE, instance.uuid)
    revision = working_set.revisions.get(ref, 0)
    if instance.revision != revision:
        why = f"is at revision {revision}, not {instance.revision}; read it again"
        return _conflict(*ref, why)
    # An instance without a revision that is in `puts` was removed by this batch, so it either has a
    # row or is in `born` already.
    if not revision and ref not in working_set.change_set.puts:
        tx.set(working_set.change_set.born, instance.uuid, None)
    stored = fast_replace(instance, revision=revision + 1)
    tx.set(working_set.revisions, ref, revision + 1)
    tx.set(working_set.change_set.puts, ref, stored)
    tx.events.append(stored)
    if working_set.counted:
        count_in_unit(tx, stored)
    return None


def _put_provider(tx: UnitTransaction, provider: Provider) -> None:
    working_set = tx.working_set
    capacity = working_set.capacities.get(provider.uuid)
    used: Mapping[str, int] = {} if capacity is None else capacity.used
    generation = provider.generation if capacity is None else capacity.generation + 1
    # The report of a host replaces the record, but must not lose the usage of a class that the
    # report no longer contains. The class stays with total 0, so that nothing more can be
    # allocated.
    forgotten = {name: Inventory(total=0) for name, amount in used.items() if amount}
    _store(tx, replace(provider, inventories=forgotten | dict(provider.inventories)), generation)


def _revise(tx: UnitTransaction, write: ReplaceProvider) -> Rejected | None:
    provider, capacity = write.record, tx.working_set.capacities.get(write.record.uuid)
    uuid = provider.uuid
    if capacity is None:
        return replace(
            _conflict(Kind.PROVIDER, uuid, "does not exist"),
            cause=RejectionCause.MISSING,
            subject=uuid,
        )
    actual = capacity.generation
    if write.generation not in {None, actual}:
        why = f"is at generation {actual}, not {write.generation}; read it again"
        refusal = _conflict(Kind.PROVIDER, uuid, why)
        return replace(refusal, cause=RejectionCause.GENERATION, subject=uuid, actual=actual)
    left_out = [name for name, amount in capacity.used.items() if amount]
    left_out = [name for name in left_out if name not in provider.inventories]
    if left_out:
        why = f"has allocations of {', '.join(left_out)}, which the new record omits"
        refusal = _conflict(Kind.PROVIDER, uuid, why)
        names = tuple(left_out)
        return replace(
            refusal, cause=RejectionCause.IN_USE, subject=uuid, actual=actual, names=names
        )
    _store(tx, provider, actual + write.raises)
    return None


def _store(tx: UnitTransaction, provider: Provider, generation: int) -> None:
    """Store a provider with its usage unchanged."""
    working_set, inventories = tx.working_set, provider.inventories
    capacity = working_set.capacities.get(provider.uuid)
    used: Mapping[str, int] = {} if capacity is None else capacity.used
    stored = replace(
        provider,
        generation=generation,
        # Only the ledger knows the usage, so the usage in the caller's record is ignored.
        used={name: used.get(name, 0) for name in inventories},
    )
    limits = {name: InventoryLimits.of(inventory) for name, inventory in inventories.items()}
    tx.set(working_set.capacities, provider.uuid, ProviderCapacity(generation, limits, stored.used))
    tx.set(working_set.change_set.puts, (Kind.PROVIDER, provider.uuid), stored)
    tx.events.append(stored)


def _remove(tx: UnitTransaction, write: Remove) -> Rejected | None:
    working_set, kind, key = tx.working_set, write.kind, write.key
    if kind is Kind.CONSUMER:
        return _conflict(kind, key, _DERIVED_ONLY)
    if not _exists(working_set, kind, key):
        return _conflict(kind, key, "does not exist")
    if kind is Kind.PROVIDER:
        if any(working_set.capacities[key].used.values()):
            return _conflict(kind, key, "has allocations; free them first")
        if (Kind.HOST, key) in working_set.revisions and Remove(Kind.HOST, key) not in tx.unit:
            return _conflict(
                kind, key, "belongs to a host; remove the host first or in the same unit"
            )
        tx.drop(working_set.capacities, key)
    else:
        if kind is Kind.INSTANCE and working_set.held.get(key):
            return _conflict(kind, key, "holds allocations; free them first")
        tx.drop(working_set.revisions, (kind, key))
        if kind in {Kind.INSTANCE, Kind.REMOTE_INSTANCE} and working_set.counted:
            uncount_in_unit(tx, key, is_remote=kind is Kind.REMOTE_INSTANCE)
    if kind is Kind.SERVICE:
        tx.drop(working_set.change_set.seen, key)
    tx.set(working_set.change_set.puts, (kind, key), None)
    if kind not in KINDS_NOT_IN_FEED:
        tx.events.append(RecordRemoved(kind, key))
    return None


def _guard(tx: UnitTransaction, guard: Guard) -> Rejected | None:
    claimed, is_shared = tx.working_set.claimed, guard.is_shared
    key, shared = exclusive_guard_key(guard.name), shared_guard_key(guard.name)
    # A shared use conflicts only with exclusive uses, and an exclusive use with both.
    newest = claimed.get(key, 0) if is_shared else max(claimed.get(key, 0), claimed.get(shared, 0))
    if newest > guard.seen:
        why = f"{guard.name} changed in version {newest}, after version {guard.seen} was read"
        return Rejected(conflict=f"{why}; read it again", stale=True)
    used = shared if is_shared else key
    tx.set(claimed, used, tx.version)
    tx.set(tx.working_set.change_set.guarded, used, tx.version)
    return None


def _record_heartbeats(tx: UnitTransaction, seen: Heartbeats) -> None:
    working_set = tx.working_set
    # A heartbeat of a host without a service record, for instance one just removed, has no row to
    # update and means nothing to followers.
    known = tuple(host for host in seen.hosts if (Kind.SERVICE, host) in working_set.revisions)
    for host in known:
        tx.set(working_set.change_set.seen, host, seen.at_s)
    if known:
        tx.events.append(HostsAlive(known, seen.at_s))


_HANDLERS: Final[Mapping[type[Write], Callable[[UnitTransaction, Any], Rejected | None]]] = {
    Take: take,
    Put: _put,
    Add: _add,
    Remove: _remove,
    Free: free,
    TransferAllocations: transfer,
    Heartbeats: _record_heartbeats,
    Guard: _guard,
    ReplaceProvider: _revise,
    Reallocate: reallocate,
    QuotaCheck: check_quota,
}
