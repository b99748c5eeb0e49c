"""Repairs that need no decision by an operator, each in a separate unit.

The unit contains the generation of the consumer or the revision of the instance that was read. The
ledger therefore rejects it after a concurrent change, and nothing is lost.
"""

from dataclasses import replace
from typing import Final

from berth.domain.compute.instance import Instance, Status
from berth.domain.inventory.allocation import Allocation, Claim, Consumer
from berth.domain.ledger.discrepancy import Discrepancy, Repair, RepairOutcome
from berth.domain.ledger.write import (
    Committed,
    ConsumerUpdate,
    Outcome,
    Put,
    Reallocate,
    Rejected,
    Take,
    Write,
)
from berth.ports.ledger import Ledger
from berth.services.auditing.audit_snapshot import (
    AuditSnapshot,
    amounts_text,
    held_by,
    total_by_class,
)

_CHANGED: Final = "not done: the record has changed; audit again"


async def repair(ledger: Ledger, snapshot: AuditSnapshot, found: Discrepancy) -> Discrepancy:
    """Carry out a discrepancy's repair, if it has one, and return the discrepancy.

    The returned discrepancy contains the outcome; without a repair it is unchanged.

    Raises:
        UnavailableError: the ledger cannot be reached; the repair may or may not have been made.
    """
    if found.mend is None:
        return found
    apply = _free if found.mend is Repair.FREE else _claim
    return replace(found, outcome=await apply(ledger, snapshot, found))


async def _free(ledger: Ledger, _: AuditSnapshot, found: Discrepancy) -> RepairOutcome:
    holding = await ledger.consumer_allocations(found.key)
    # Only exactly the reported allocations may be freed.
    if holding is None or await held_by(ledger, found.key) != found.held:
        return RepairOutcome(_CHANGED)
    consumer = holding.consumer
    generation = consumer.generation
    share = ConsumerUpdate(
        Consumer(found.key, consumer.project_id, consumer.user_id), {}, seen=generation
    )
    unit: list[Write] = [Reallocate((share,))]
    instance = await ledger.get(Instance, found.key)
    if instance is not None and instance.status is not Status.DELETED:
        # The instance has no host but may be placed at any moment, so its revision guards the unit.
        if instance.host is not None:
            return RepairOutcome(_CHANGED)
        unit.append(Put(instance))
    (outcome,) = await ledger.commit([tuple(unit)])
    return _told(outcome, f"freed {amounts_text(total_by_class(found.held))}")


async def _claim(ledger: Ledger, snapshot: AuditSnapshot, found: Discrepancy) -> RepairOutcome:
    known = snapshot.instances[found.key]
    now = await ledger.get(Instance, found.key)
    # The needs were computed from the revision in the snapshot.
    if now is None or now.revision != known.revision:
        return RepairOutcome(_CHANGED)
    allocations = [Allocation(now.uuid, uuid, amounts) for uuid, amounts in found.needed.items()]
    # The key names the revision, so that a repeated repair of one state claims only once.
    claim = Claim(f"audit {now.uuid} {now.revision}", tuple(allocations))
    (outcome,) = await ledger.commit([(Take(claim), Put(now))])
    return _told(outcome, f"claimed {amounts_text(total_by_class(found.needed))}")


def _told(outcome: Outcome, done: str) -> RepairOutcome:
    match outcome:
        case Committed():
            return RepairOutcome(f"{done} in version {outcome.version}", outcome.version)
        case Rejected(shortages=()):
            return RepairOutcome(f"not done: {outcome.conflict}; audit again")
        case Rejected():
            short = ", ".join(
                f"{one.resource_class}: {one.asked:,} needed, {one.left:,} left"
                for one in outcome.shortages
            )
            return RepairOutcome(f"not done: there is no room ({short}); move instances away")
