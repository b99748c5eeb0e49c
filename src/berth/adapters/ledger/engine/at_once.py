"""Judging at once: units whose writes have nothing to do with one another.

Nearly every unit is one placement: a claim on one provider, an instance, a decision. All of it is
looked at before any of it is done, so nothing is ever undone, and nothing is kept for that. A
unit that is anything else, or that may have to be refused, is left to `judge`, write by write.
"""

from berth.adapters.ledger.engine.quota_counts import count_instance
from berth.adapters.ledger.engine.working_set import NO_CHANGE, Ref, WorkingSet
from berth.domain.compute.decision import Decision
from berth.domain.compute.instance import Instance
from berth.domain.inventory.allocation import Allocation, Claim
from berth.domain.ledger.change import Change, Usage
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Committed, Put, Take, Unit
from berth.domain.revising import fast_replace

Parts = tuple[Claim | None, dict[Ref, Instance | Decision]]
"""A unit's claim, if it has one, and what it puts."""


def commit_at_once(working_set: WorkingSet, unit: Unit) -> Committed | None:
    """Commit a unit that can be, and keep the books accordingly; None leaves them as they are."""
    parts = _parts_of(working_set, unit)
    if parts is None:
        return None
    claim, puts = parts
    usage: Usage | None = None
    if claim is not None:
        allocation = _only_one(working_set, claim)
        if allocation is None:
            return None
        usage = _take(working_set, claim.key, allocation)
    version = working_set.version = working_set.version + 1
    changes, count = working_set.change_set.changes, len(working_set.change_set.changes)
    for ref, record in puts.items():
        if type(record) is Instance:
            changes.append(Change(version, _put_instance(working_set, ref, record)))
        else:
            working_set.revisions[ref] = 1
            working_set.change_set.puts[ref] = record
    if usage is not None:
        changes.append(Change(version, usage))
    if len(changes) == count:
        changes.append(Change(version, NO_CHANGE))
    return Committed(version)


def _parts_of(working_set: WorkingSet, unit: Unit) -> Parts | None:
    """Take a unit apart; None when some of it is of another kind, or may be refused."""
    claim: Claim | None = None
    puts: dict[Ref, Instance | Decision] = {}
    for write in unit:
        if type(write) is Put:
            record = write.record
            if type(record) is Instance:
                ref = (Kind.INSTANCE, record.uuid)
                if working_set.revisions.get(ref, 0) != record.revision:
                    return None
            elif type(record) is Decision:
                ref = (Kind.DECISION, record.request_id)
            else:
                return None
            if ref in puts:
                return None
            puts[ref] = record
        elif type(write) is Take and claim is None:
            claim = write.claim
        else:
            return None
    return claim, puts


def _only_one(working_set: WorkingSet, claim: Claim) -> Allocation | None:
    """Return the only allocation of a new claim, if there is room for it."""
    if len(claim.allocations) != 1 or claim.key in working_set.claimed:
        return None
    allocation = claim.allocations[0]
    if working_set.held.get(allocation.consumer_uuid) or not allocation.amounts:
        return None
    capacity = working_set.capacities.get(allocation.provider_uuid)
    return None if capacity is None or not capacity.fits(allocation.amounts) else allocation


def _take(working_set: WorkingSet, key: str, allocation: Allocation) -> Usage:
    """Take what is allocated, for the next version."""
    change_set, version = working_set.change_set, working_set.version + 1
    consumer, provider = allocation.consumer_uuid, allocation.provider_uuid
    capacity = working_set.capacities[provider]
    change_set.used_before.setdefault(provider, capacity.used)
    used = dict(capacity.used)
    for name, amount in allocation.amounts.items():
        used[name] += amount
    capacity.used = used
    capacity.generation += 1
    working_set.held[consumer] = {provider: dict(allocation.amounts)}
    change_set.taken[consumer] = None
    working_set.claimed[key] = version
    change_set.claimed[key] = version
    return Usage(provider, used, capacity.generation)


def _put_instance(working_set: WorkingSet, ref: Ref, instance: Instance) -> Instance:
    change_set, revision = working_set.change_set, instance.revision + 1
    if revision == 1 and ref not in change_set.puts:
        change_set.born[instance.uuid] = None
    stored = fast_replace(instance, revision=revision)
    working_set.revisions[ref] = revision
    change_set.puts[ref] = stored
    if working_set.counted:
        count_instance(working_set, stored)
    return stored
