"""What a unit of writes means: the one pure implementation that every ledger adapter shares.

An adapter that commits a batch of units

1. asks `required_keys` which keys judging it needs, and loads these into a `WorkingSet`;
2. calls `apply_units`, which decides unit by unit, in order, and keeps the books as if each committed
   unit had been written at once;
3. writes down what `WorkingSet.dirt` says, in one transaction with what it loaded.

So capacity is summed over the whole batch, and every store refuses and commits the same.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from berth.adapters.ledger.engine.at_once import commit_at_once
from berth.adapters.ledger.engine.claims import free, hand_over, take
from berth.adapters.ledger.engine.quota_counts import count_in_unit, uncount_in_unit, within
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
from berth.domain.inventory.allocation import Consumer
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory
from berth.domain.ledger.change import Alive, Gone
from berth.domain.ledger.record import KINDS, UNTOLD_KINDS, Kind, key_of
from berth.domain.ledger.write import (
    Add,
    Cause,
    Committed,
    Free,
    Guard,
    HandOver,
    Outcome,
    Put,
    Reallocate,
    Rejected,
    Remove,
    Revise,
    Seen,
    Take,
    Unit,
    Within,
    Write,
)
from berth.domain.revising import revised
from berth.domain.zones.zone import Errand


def required_keys(units: Iterable[Unit]) -> RequiredKeys:
    """Name every key that judging these units needs."""
    needs = RequiredKeys()
    for unit in units:
        for write in unit:
            _NEEDS[type(write)](needs, write)
    return needs


def apply_units(books: WorkingSet, units: Iterable[Unit]) -> list[Outcome]:
    """Decide each unit, in order, and keep the books accordingly."""
    return [commit_at_once(books, unit) or apply_unit(books, unit) for unit in units]


def _need_claim(needs: RequiredKeys, take: Take) -> None:
    needs.claim_keys.add(take.claim.key)
    for allocation in take.claim.allocations:
        needs.consumers.add(allocation.consumer_uuid)
        needs.providers.add(allocation.provider_uuid)


def _need_put(needs: RequiredKeys, write: Put) -> None:
    record = write.record
    if isinstance(record, Instance):
        needs.record(Kind.INSTANCE, record.uuid)
    elif isinstance(record, Provider):
        needs.providers.add(record.uuid)


def _need_add(needs: RequiredKeys, write: Add) -> None:
    record = write.record
    if isinstance(record, Provider):
        needs.providers.add(record.uuid)
    else:
        needs.record(KINDS[type(record)], key_of(record))


def _need_removal(needs: RequiredKeys, write: Remove) -> None:
    kind, key = write.kind, write.key
    if kind is Kind.PROVIDER:
        needs.providers.add(key)
        needs.record(Kind.HOST, key)
        return
    needs.record(kind, key)
    if kind is Kind.INSTANCE:
        needs.consumers.add(key)


def _need_consumer(needs: RequiredKeys, write: Free) -> None:
    needs.consumers.add(write.consumer_uuid)
    needs.record(Kind.CONSUMER, write.consumer_uuid)


def _need_both(needs: RequiredKeys, write: HandOver) -> None:
    for uuid in (write.consumer_uuid, write.to.uuid):
        needs.consumers.add(uuid)
        needs.record(Kind.CONSUMER, uuid)


def _need_shares(needs: RequiredKeys, write: Reallocate) -> None:
    for share in write.shares:
        needs.consumers.add(share.consumer.uuid)
        needs.record(Kind.CONSUMER, share.consumer.uuid)
        needs.providers.update(share.allocations)


def _need_revised(needs: RequiredKeys, write: Revise) -> None:
    needs.providers.add(write.record.uuid)


def _need_services(needs: RequiredKeys, write: Seen) -> None:
    for host in write.hosts:
        needs.record(Kind.SERVICE, host)


def _need_guard(needs: RequiredKeys, write: Guard) -> None:
    needs.claim_keys.add(exclusive_guard_key(write.name))
    needs.claim_keys.add(shared_guard_key(write.name))


def _need_count(needs: RequiredKeys, write: Within) -> None:
    needs.projects.add(write.project_id)


_NEEDS: Final[Mapping[type[Write], Callable[[RequiredKeys, Any], None]]] = {
    Take: _need_claim,
    Put: _need_put,
    Add: _need_add,
    Remove: _need_removal,
    Free: _need_consumer,
    HandOver: _need_both,
    Seen: _need_services,
    Guard: _need_guard,
    Revise: _need_revised,
    Reallocate: _need_shares,
    Within: _need_count,
}


def apply_unit(books: WorkingSet, unit: Unit) -> Outcome:
    """Judge one unit write by write, undoing all of it should one be refused."""
    earlier = _judge_keys(books, unit)
    if earlier is not None:
        return earlier
    draft = UnitTransaction(books, unit)
    for write in unit:
        refusal = _DEEDS[type(write)](draft, write)
        if refusal is not None:
            draft.undo()
            return refusal
    return draft.commit()


def _judge_keys(books: WorkingSet, unit: Unit) -> Outcome | None:
    keys = [write.claim.key for write in unit if type(write) is Take]
    if not keys:
        return None
    version = books.claimed.get(keys[0])
    if len(keys) > 1:
        if len(set(keys)) < len(keys):
            return Rejected(conflict=f"two claims of one unit share the key {keys[0]!r}")
        if any(books.claimed.get(key) != version for key in keys):
            return Rejected(conflict="some claims of the unit were committed before in another")
    return None if version is None else Committed(version, repeated=True)


def _conflict(kind: Kind, key: str, why: str) -> Rejected:
    return Rejected(conflict=f"{kind} {key!r} {why}")


def _is_there(books: WorkingSet, kind: Kind, key: str) -> bool:
    return key in books.rooms if kind is Kind.PROVIDER else (kind, key) in books.revisions


# --- records ---

_NOT_DIRECTLY: Final = "follows from what it holds, and is not saved or removed by itself"


def _add(draft: UnitTransaction, write: Add) -> Rejected | None:
    record = write.record
    kind, key = KINDS[type(record)], key_of(record)
    if _is_there(draft.books, kind, key):
        return _conflict(kind, key, "exists already")
    return _put(draft, write)


def _put(draft: UnitTransaction, write: Put | Add) -> Rejected | None:
    record = write.record
    if isinstance(record, Instance):
        return _put_instance(draft, record)
    if isinstance(record, Provider):
        _put_provider(draft, record)
        return None
    books, kind, key = draft.books, KINDS[type(record)], key_of(record)
    if isinstance(record, Consumer):
        return _conflict(kind, key, _NOT_DIRECTLY)
    ref = (kind, key)
    draft.set(books.revisions, ref, 1)
    if kind is Kind.SERVICE:
        draft.drop(books.dirt.seen, key)
    draft.set(books.dirt.puts, ref, record)
    if kind not in UNTOLD_KINDS:
        draft.tell(record)
    if isinstance(record, Errand) and books.counted:
        count_in_unit(draft, record)
    return None


def _put_instance(draft: UnitTransaction, instance: Instance) -> Rejected | None:
    books, ref = draft.books, (Kind.INSTANCE, instance.uuid)
    revision = books.revisions.get(ref, 0)
    if instance.revision != revision:
        why = f"is at revision {revision}, not {instance.revision}; read it again"
        return _conflict(*ref, why)
    if not revision and ref not in books.dirt.puts:
        draft.set(books.dirt.born, instance.uuid, None)
    stored = revised(instance, revision=revision + 1)
    draft.set(books.revisions, ref, revision + 1)
    draft.set(books.dirt.puts, ref, stored)
    draft.tell(stored)
    if books.counted:
        count_in_unit(draft, stored)
    return None


def _put_provider(draft: UnitTransaction, provider: Provider) -> None:
    books = draft.books
    room = books.rooms.get(provider.uuid)
    used: Mapping[str, int] = {} if room is None else room.used
    generation = provider.generation if room is None else room.generation + 1
    forgotten = {name: Inventory(total=0) for name, amount in used.items() if amount}
    _store(draft, replace(provider, inventories=forgotten | dict(provider.inventories)), generation)


def _revise(draft: UnitTransaction, write: Revise) -> Rejected | None:
    provider, room = write.record, draft.books.rooms.get(write.record.uuid)
    uuid = provider.uuid
    if room is None:
        return replace(
            _conflict(Kind.PROVIDER, uuid, "is not there"), cause=Cause.MISSING, subject=uuid
        )
    actual = room.generation
    if write.generation not in {None, actual}:
        why = f"is at generation {actual}, not {write.generation}; read it again"
        refusal = _conflict(Kind.PROVIDER, uuid, why)
        return replace(refusal, cause=Cause.GENERATION, subject=uuid, actual=actual)
    left_out = [name for name, amount in room.used.items() if amount]
    left_out = [name for name in left_out if name not in provider.inventories]
    if left_out:
        refusal = _conflict(Kind.PROVIDER, uuid, f"has {', '.join(left_out)} in use")
        names = tuple(left_out)
        return replace(refusal, cause=Cause.IN_USE, subject=uuid, actual=actual, names=names)
    _store(draft, provider, actual + write.raises)
    return None


def _store(draft: UnitTransaction, provider: Provider, generation: int) -> None:
    """Store a provider, with what is used of it left as it is."""
    books, inventories = draft.books, provider.inventories
    room = books.rooms.get(provider.uuid)
    used: Mapping[str, int] = {} if room is None else room.used
    stored = replace(
        provider,
        generation=generation,
        used={name: used.get(name, 0) for name in inventories},
    )
    limits = {name: InventoryLimits.of(inventory) for name, inventory in inventories.items()}
    draft.set(books.rooms, provider.uuid, ProviderCapacity(generation, limits, stored.used))
    draft.set(books.dirt.puts, (Kind.PROVIDER, provider.uuid), stored)
    draft.tell(stored)


def _remove(draft: UnitTransaction, write: Remove) -> Rejected | None:
    books, kind, key = draft.books, write.kind, write.key
    if kind is Kind.CONSUMER:
        return _conflict(kind, key, _NOT_DIRECTLY)
    if not _is_there(books, kind, key):
        return _conflict(kind, key, "is not there")
    if kind is Kind.PROVIDER:
        if any(books.rooms[key].used.values()):
            return _conflict(kind, key, "has allocations; free them first")
        if (Kind.HOST, key) in books.revisions and Remove(Kind.HOST, key) not in draft.unit:
            return _conflict(kind, key, "belongs to a host; remove that first or with it")
        draft.drop(books.rooms, key)
    else:
        if kind is Kind.INSTANCE and books.held.get(key):
            return _conflict(kind, key, "holds allocations; free them first")
        draft.drop(books.revisions, (kind, key))
        if kind in {Kind.INSTANCE, Kind.ERRAND} and books.counted:
            uncount_in_unit(draft, key, is_errand=kind is Kind.ERRAND)
    if kind is Kind.SERVICE:
        draft.drop(books.dirt.seen, key)
    draft.set(books.dirt.puts, (kind, key), None)
    if kind not in UNTOLD_KINDS:
        draft.tell(Gone(kind, key))
    return None


def _guard(draft: UnitTransaction, guard: Guard) -> Rejected | None:
    claimed, is_shared = draft.books.claimed, guard.is_shared
    key, shared = exclusive_guard_key(guard.name), shared_guard_key(guard.name)
    newest = claimed.get(key, 0) if is_shared else max(claimed.get(key, 0), claimed.get(shared, 0))
    if newest > guard.seen:
        why = f"{guard.name} changed in version {newest}, after {guard.seen}"
        return Rejected(conflict=f"{why}; read it again", stale=True)
    used = shared if is_shared else key
    draft.set(claimed, used, draft.version)
    draft.set(draft.books.dirt.guarded, used, draft.version)
    return None


def _see(draft: UnitTransaction, seen: Seen) -> None:
    books = draft.books
    known = tuple(host for host in seen.hosts if (Kind.SERVICE, host) in books.revisions)
    for host in known:
        draft.set(books.dirt.seen, host, seen.at_s)
    if known:
        draft.tell(Alive(known, seen.at_s))


_DEEDS: Final[Mapping[type[Write], Callable[[UnitTransaction, Any], Rejected | None]]] = {
    Take: take,
    Put: _put,
    Add: _add,
    Remove: _remove,
    Free: free,
    HandOver: hand_over,
    Seen: _see,
    Guard: _guard,
    Revise: _revise,
    Reallocate: reallocate,
    Within: within,
}
