"""What a unit of writes means: the one pure implementation that every ledger adapter shares.

An adapter that commits a batch of units

1. asks `needs_of` which keys judging it needs, and loads these into a `Books`;
2. calls `judge`, which decides unit by unit, in order, and keeps the books as if each committed
   unit had been written at once;
3. writes down what `Books.dirt` says, in one transaction with what it loaded.

So capacity is summed over the whole batch, and every store refuses and commits the same.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from berth.adapters.ledger.at_once import commit_at_once
from berth.adapters.ledger.books import Books, Draft, Holding, Limits, Needs, Room, guard_key
from berth.domain.allocation import Allocation, Shortage
from berth.domain.change import Alive, Gone
from berth.domain.instance import Instance
from berth.domain.provider import Provider
from berth.domain.record import KINDS, Kind, key_of
from berth.domain.resources import Inventory
from berth.domain.revising import revised
from berth.domain.write import (
    Add,
    Committed,
    Free,
    Guard,
    Outcome,
    Put,
    Rejected,
    Remove,
    Seen,
    Take,
    Unit,
    Write,
)


def needs_of(units: Iterable[Unit]) -> Needs:
    """Name every key that judging these units needs."""
    needs = Needs()
    for unit in units:
        for write in unit:
            _NEEDS[type(write)](needs, write)
    return needs


def judge(books: Books, units: Iterable[Unit]) -> list[Outcome]:
    """Decide each unit, in order, and keep the books accordingly."""
    return [commit_at_once(books, unit) or judge_by_writes(books, unit) for unit in units]


def _need_claim(needs: Needs, take: Take) -> None:
    needs.claim_keys.add(take.claim.key)
    for allocation in take.claim.allocations:
        needs.consumers.add(allocation.consumer_uuid)
        needs.providers.add(allocation.provider_uuid)


def _need_put(needs: Needs, write: Put) -> None:
    record = write.record
    if isinstance(record, Instance):
        needs.record(Kind.INSTANCE, record.uuid)
    elif isinstance(record, Provider):
        needs.providers.add(record.uuid)


def _need_add(needs: Needs, write: Add) -> None:
    record = write.record
    if isinstance(record, Provider):
        needs.providers.add(record.uuid)
    else:
        needs.record(KINDS[type(record)], key_of(record))


def _need_removal(needs: Needs, write: Remove) -> None:
    kind, key = write.kind, write.key
    if kind is Kind.PROVIDER:
        needs.providers.add(key)
        needs.record(Kind.HOST, key)
        return
    needs.record(kind, key)
    if kind is Kind.INSTANCE:
        needs.consumers.add(key)


def _need_consumer(needs: Needs, write: Free) -> None:
    needs.consumers.add(write.consumer_uuid)


def _need_services(needs: Needs, write: Seen) -> None:
    for host in write.hosts:
        needs.record(Kind.SERVICE, host)


def _need_guard(needs: Needs, write: Guard) -> None:
    needs.claim_keys.add(guard_key(write.name))


_NEEDS: Final[Mapping[type[Write], Callable[[Needs, Any], None]]] = {
    Take: _need_claim,
    Put: _need_put,
    Add: _need_add,
    Remove: _need_removal,
    Free: _need_consumer,
    Seen: _need_services,
    Guard: _need_guard,
}


def judge_by_writes(books: Books, unit: Unit) -> Outcome:
    """Judge one unit write by write, undoing all of it should one be refused."""
    earlier = _judge_keys(books, unit)
    if earlier is not None:
        return earlier
    draft = Draft(books, unit)
    for write in unit:
        refusal = _DEEDS[type(write)](draft, write)
        if refusal is not None:
            draft.undo()
            return refusal
    return draft.commit()


def _judge_keys(books: Books, unit: Unit) -> Outcome | None:
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


def _is_there(books: Books, kind: Kind, key: str) -> bool:
    return key in books.rooms if kind is Kind.PROVIDER else (kind, key) in books.revisions


# --- records ---


def _add(draft: Draft, write: Add) -> Rejected | None:
    record = write.record
    kind, key = KINDS[type(record)], key_of(record)
    if _is_there(draft.books, kind, key):
        return _conflict(kind, key, "exists already")
    return _put(draft, write)


def _put(draft: Draft, write: Put | Add) -> Rejected | None:
    record = write.record
    if isinstance(record, Instance):
        return _put_instance(draft, record)
    if isinstance(record, Provider):
        _put_provider(draft, record)
        return None
    books, kind, key = draft.books, KINDS[type(record)], key_of(record)
    ref = (kind, key)
    draft.set(books.revisions, ref, 1)
    if kind is Kind.SERVICE:
        draft.drop(books.dirt.seen, key)
    draft.set(books.dirt.puts, ref, record)
    if kind is not Kind.DECISION:
        draft.tell(record)
    return None


def _put_instance(draft: Draft, instance: Instance) -> Rejected | None:
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
    return None


def _put_provider(draft: Draft, provider: Provider) -> None:
    books = draft.books
    room = books.rooms.get(provider.uuid)
    used = {} if room is None else {name: n for name, n in room.used.items() if n}
    generation = provider.generation if room is None else room.generation + 1
    inventories = {name: Inventory(total=0) for name in used} | dict(provider.inventories)
    stored = replace(
        provider,
        generation=generation,
        inventories=inventories,
        used={name: used.get(name, 0) for name in inventories},
    )
    limits = {name: Limits.of(inventory) for name, inventory in inventories.items()}
    draft.set(books.rooms, provider.uuid, Room(generation, limits, stored.used))
    draft.set(books.dirt.puts, (Kind.PROVIDER, provider.uuid), stored)
    draft.tell(stored)


def _remove(draft: Draft, write: Remove) -> Rejected | None:
    books, kind, key = draft.books, write.kind, write.key
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
    if kind is Kind.SERVICE:
        draft.drop(books.dirt.seen, key)
    draft.set(books.dirt.puts, (kind, key), None)
    if kind is not Kind.DECISION:
        draft.tell(Gone(kind, key))
    return None


def _guard(draft: Draft, guard: Guard) -> Rejected | None:
    books, key = draft.books, guard_key(guard.name)
    newest = books.claimed.get(key, 0)
    if newest > guard.seen:
        why = f"{guard.name} changed in version {newest}, after {guard.seen}"
        return Rejected(conflict=f"{why}; read it again", stale=True)
    draft.set(books.claimed, key, draft.version)
    draft.set(books.dirt.guarded, key, draft.version)
    return None


def _see(draft: Draft, seen: Seen) -> None:
    books = draft.books
    known = tuple(host for host in seen.hosts if (Kind.SERVICE, host) in books.revisions)
    for host in known:
        draft.set(books.dirt.seen, host, seen.at_s)
    if known:
        draft.tell(Alive(known, seen.at_s))


# --- claims ---


def _take(draft: Draft, take: Take) -> Rejected | None:
    books, claim = draft.books, take.claim
    holdings = _holdings(claim.allocations)
    if holdings is None:
        return Rejected(conflict=f"claim {claim.key!r} names a consumer and provider twice")
    for consumer_uuid in holdings:
        if books.held.get(consumer_uuid):
            return Rejected(conflict=f"consumer {consumer_uuid!r} holds allocations already")
    shortages = _shortages(books, claim.allocations)
    if shortages:
        return Rejected(shortages=shortages)
    for consumer_uuid, holding in holdings.items():
        draft.set(books.held, consumer_uuid, holding)
        draft.set(books.dirt.taken, consumer_uuid, None)
    for allocation in claim.allocations:
        draft.spend(allocation.provider_uuid, allocation.amounts)
    draft.set(books.claimed, claim.key, draft.version)
    draft.set(books.dirt.claimed, claim.key, draft.version)
    return None


def _holdings(allocations: Sequence[Allocation]) -> dict[str, Holding] | None:
    holdings: dict[str, dict[str, dict[str, int]]] = {}
    for allocation in allocations:
        holding = holdings.setdefault(allocation.consumer_uuid, {})
        if allocation.provider_uuid in holding:
            return None
        holding[allocation.provider_uuid] = dict(allocation.amounts)
    return dict(holdings)


def _shortages(books: Books, allocations: Sequence[Allocation]) -> tuple[Shortage, ...]:
    """Find what is short: first amounts that no one may ask for, then sums above the room."""
    never: list[Shortage] = []
    asked: dict[tuple[str, str], int] = {}
    for allocation in allocations:
        uuid = allocation.provider_uuid
        room = books.rooms.get(uuid)
        for name, amount in allocation.amounts.items():
            limits = None if room is None else room.limits.get(name)
            if room is None or limits is None:
                never.append(Shortage(uuid, name, amount, 0))
            elif not limits.allow(amount):
                left = min(limits.capacity - room.used[name], limits.unit_max)
                never.append(Shortage(uuid, name, amount, max(left, 0) if amount > left else 0))
            else:
                asked[uuid, name] = asked.get((uuid, name), 0) + amount
    summed = [
        Shortage(uuid, name, amount, max(left, 0))
        for (uuid, name), amount in asked.items()
        if amount > (left := books.rooms[uuid].left(name))
    ]
    return (*never, *summed)


def _free(draft: Draft, write: Free) -> None:
    books, consumer_uuid = draft.books, write.consumer_uuid
    holding = books.held.get(consumer_uuid)
    if not holding:
        return
    for provider_uuid, amounts in holding.items():
        draft.spend(provider_uuid, {name: -amount for name, amount in amounts.items()})
    draft.drop(books.held, consumer_uuid)
    draft.set(books.dirt.freed, consumer_uuid, None)


_DEEDS: Final[Mapping[type[Write], Callable[[Draft, Any], Rejected | None]]] = {
    Take: _take,
    Put: _put,
    Add: _add,
    Remove: _remove,
    Free: _free,
    Seen: _see,
    Guard: _guard,
}
