"""The audit of consumers that are neither placed instances nor moves in progress."""

from collections.abc import Iterator

from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.migration import Migration
from berth.domain.inventory.allocation import Consumer, ConsumerAllocations
from berth.domain.ledger.discrepancy import Discrepancy, DiscrepancyCode, Repair
from berth.domain.ledger.record import Kind
from berth.ports.ledger import Ledger
from berth.services.auditing.audit_snapshot import (
    Amounts,
    AuditSnapshot,
    age_text,
    amounts_text,
    held_by,
    total_by_class,
)

_FREES = "`berth audit --fix` frees it"


def unknown_consumers(snapshot: AuditSnapshot) -> Iterator[str]:
    """Yield the uuids of consumers that are neither a placed instance nor a live move."""
    for uuid in snapshot.held:
        instance = snapshot.instances.get(uuid)
        is_placed = instance is not None and instance.host is not None
        # Placed instances and live moves are audited with their own records.
        if not is_placed and uuid not in snapshot.migrations:
            yield uuid


async def recheck_consumer(
    ledger: Ledger, snapshot: AuditSnapshot, uuid: str
) -> Discrepancy | ConsumerAllocations | None:
    """Check a consumer again.

    Returns:
        A discrepancy, or the allocations of a foreign consumer. None if nothing is wrong, the
        consumer is changing, or its last change is too recent to be reported.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    held = await held_by(ledger, uuid)
    migration = await ledger.get(Migration, uuid)
    consumer = await ledger.get(Consumer, uuid)
    instance = await ledger.get(Instance, uuid)
    # The allocations are read before and after the records. If they are equal, the records belong
    # to them.
    if not held or await held_by(ledger, uuid) != held:
        return None
    if migration is not None:
        return _of_move(snapshot, migration, held)
    # Clients of the Placement API own their consumers; an audit only lists them.
    if consumer is not None:
        return ConsumerAllocations(consumer, held)
    if instance is not None:
        return _of_instance(snapshot, instance, held)
    amounts = amounts_text(total_by_class(held))
    text = f"consumer {uuid} holds {amounts}, but is neither an instance nor a move"
    return _orphan(snapshot, (Kind.CONSUMER, uuid), held, text, None)


def _of_move(snapshot: AuditSnapshot, migration: Migration, held: Amounts) -> Discrepancy | None:
    since_s = migration.updated_at_s
    # The allocations of a move that has just ended may be about to be freed.
    if not migration.has_ended or not snapshot.is_older(since_s, snapshot.ages.grace_s):
        return None
    text = (
        f"the move {migration.number} of instance {migration.instance_uuid} ended "
        f"{age_text(snapshot, since_s)} ago and still holds {amounts_text(total_by_class(held))}"
    )
    return _orphan(snapshot, (Kind.MIGRATION, migration.uuid), held, text, since_s)


def _of_instance(snapshot: AuditSnapshot, instance: Instance, held: Amounts) -> Discrepancy | None:
    is_deleted = instance.status is Status.DELETED
    since_s = instance.updated_at_s
    if not is_deleted and instance.host is not None:
        return None  # the instance has been placed since the snapshot
    if not snapshot.is_older(since_s, snapshot.ages.grace_s):
        return None
    age = age_text(snapshot, since_s)
    how = f"was deleted {age} ago"
    if not is_deleted:
        how = f"has been {instance.status} without a host for {age}"
    text = f"instance {instance.uuid} {how} and still holds {amounts_text(total_by_class(held))}"
    return _orphan(snapshot, (Kind.INSTANCE, instance.uuid), held, text, since_s)


def _orphan(
    snapshot: AuditSnapshot,
    record: tuple[Kind, str],
    held: Amounts,
    text: str,
    since_s: float | None,
) -> Discrepancy:
    kind, key = record
    return Discrepancy(
        code=DiscrepancyCode.ORPHANED_ALLOCATION,
        kind=kind,
        key=key,
        text=text,
        advice=_FREES,
        host=next((name for uuid in held if (name := snapshot.host_of(uuid))), None),
        since_s=since_s,
        lost=total_by_class(held),
        held=held,
        mend=Repair.FREE,
    )
