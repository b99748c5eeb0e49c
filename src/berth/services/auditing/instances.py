"""The audit of instances, with their hosts, allocations, tasks and pending requests."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from berth.domain.compute.decision import Decision
from berth.domain.compute.instance import Instance, Task
from berth.domain.compute.lifecycle import EVACUATE, HOST_TASKS
from berth.domain.compute.migration import Migration, Place, Stage
from berth.domain.compute.needs import needs_of, with_hardware
from berth.domain.compute.observed import is_observed
from berth.domain.errors import InvalidInputError
from berth.domain.hardware.assignment import allocations_by_provider
from berth.domain.ledger.discrepancy import Discrepancy, DiscrepancyCode, Repair
from berth.domain.ledger.record import Kind, PendingRequest
from berth.ports.ledger import Ledger
from berth.services.auditing.audit_snapshot import (
    Amounts,
    AuditSnapshot,
    age_text,
    amounts_text,
    held_by,
    total_by_class,
    without_zeros,
)

_CLAIMS = "`berth audit --fix` claims it if there is room; else move instances away"
_BUSY = "wait until its task is done; then `berth audit --fix` claims it"
_RESET = "reset its state (`berth server reset-state`), or delete it"
# Stages in which an instance holds its allocations at the destination without being there yet.
_ON_ITS_WAY: Final = frozenset(
    {
        Stage.LEAVING,
        Stage.ARRIVING,
        Stage.PREPARING,
        Stage.MOVING,
        Stage.LANDING,
        Stage.WITHDRAWING,
    }
)


def suspect_instance(snapshot: AuditSnapshot, instance: Instance) -> Iterator[Discrepancy]:
    """Yield the suspicions about a live instance."""
    if instance.host is not None:
        if (instance.host, instance.node or "") not in snapshot.hosts:
            yield _homeless(instance)
        else:
            yield from _allocated(snapshot, instance)
            yield from _outside_zone(snapshot, instance, instance.host)
    yield from _stuck(snapshot, instance)


def suspect_shelved(snapshot: AuditSnapshot, instance: Instance) -> Iterator[Discrepancy]:
    """Yield the suspicion about a shelved instance without a host, if there is one."""
    since_s = instance.updated_at_s
    if is_observed(instance):
        return  # the other cloud has its disks
    if instance.disks is None and snapshot.is_older(since_s, snapshot.ages.grace_s):
        yield Discrepancy(
            code=DiscrepancyCode.DISKS_UNKNOWN,
            kind=Kind.INSTANCE,
            key=instance.uuid,
            text=f"instance {instance.uuid} left its host, and no record says where its disks are",
            advice="look for its disks before you unshelve it, which rebuilds it from its image",
            since_s=since_s,
        )


async def recheck_instance(
    ledger: Ledger, snapshot: AuditSnapshot, suspicion: Discrepancy
) -> Discrepancy | None:
    """Return the suspicion if the instance, its move and its allocations have not changed.

    The result is None if one of them differs from the snapshot.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    uuid = suspicion.key
    before = snapshot.instances.get(uuid) or snapshot.shelved[uuid]
    held = await held_by(ledger, uuid)
    migration: Migration | None = None
    if before.migration_uuid is not None:
        # The move is read first. If the instance is unchanged after that, both belong together.
        migration = await ledger.get(Migration, before.migration_uuid)
    now = await ledger.get(Instance, uuid)
    if now is None or now.revision != before.revision:
        return None
    known = snapshot.move_of(before)
    is_same = known is None or (migration is not None and migration.stage is known.stage)
    return suspicion if is_same and held == snapshot.held.get(uuid, {}) else None


def _homeless(instance: Instance) -> Discrepancy:
    return Discrepancy(
        code=DiscrepancyCode.HOST_MISSING,
        kind=Kind.INSTANCE,
        key=instance.uuid,
        text=f"instance {instance.uuid} is on the unknown host {instance.host} ({instance.node})",
        advice="start the agent of that host, or evacuate or delete the instance",
        host=instance.host,
        since_s=instance.updated_at_s,
    )


def _outside_zone(snapshot: AuditSnapshot, instance: Instance, host: str) -> Iterator[Discrepancy]:
    """Yield a discrepancy if a host is outside the zone to which its instance is bound."""
    wanted, since_s = instance.requested_zone, instance.updated_at_s
    if wanted is None or not snapshot.is_older(since_s, snapshot.ages.grace_s):
        return
    named = (one.availability_zones for one in snapshot.aggregates if host in one.hosts)
    zones = frozenset[str]().union(*named) or {snapshot.default_zone}
    if wanted in zones:
        return
    yield Discrepancy(
        code=DiscrepancyCode.OUTSIDE_ZONE,
        kind=Kind.INSTANCE,
        key=instance.uuid,
        text=(
            f"instance {instance.uuid} is bound to availability zone {wanted}, but its host {host} "
            f"is in {', '.join(sorted(zones))}"
        ),
        advice=(
            f"put the host into zone {wanted} again, migrate the instance to a host there, or "
            f"change its zone (berth server zone {instance.uuid})"
        ),
        host=host,
        since_s=since_s,
    )


def _allocated(snapshot: AuditSnapshot, instance: Instance) -> Iterator[Discrepancy]:
    migration = snapshot.move_of(instance)
    # The progress of a move counts as a change of its instance.
    since_s = max(instance.updated_at_s, migration.updated_at_s if migration else 0.0)
    if not snapshot.is_older(since_s, snapshot.ages.grace_s):
        return
    held = snapshot.held.get(instance.uuid, {})
    try:
        needed = needed_by(snapshot, instance)
    except InvalidInputError:
        return  # its needs are unknown, because its specs cannot be parsed
    # A missing host, for which the needs are None, is reported as another discrepancy.
    if needed is None or needed == held:
        return
    found = Discrepancy(
        code=DiscrepancyCode.ALLOCATION_DIFFERS,
        kind=Kind.INSTANCE,
        key=instance.uuid,
        text=(
            f"instance {instance.uuid} holds {amounts_text(total_by_class(held))} but needs "
            f"{amounts_text(total_by_class(needed))}"
        ),
        advice="resize or move it, or correct its allocations through the Placement API",
        host=instance.host,
        since_s=since_s,
        lost=_surplus(held, needed),
        held=held,
        needed=needed,
    )
    if not held:
        yield _nothing_held(found, instance, needed)
    elif not held.keys() <= needed.keys():
        others = sorted(held.keys() - needed.keys())
        where = ", ".join(snapshot.host_of(uuid) or uuid for uuid in others)
        yield replace(
            found,
            code=DiscrepancyCode.ALLOCATION_ELSEWHERE,
            text=f"instance {instance.uuid} is on {instance.host} but holds capacity on {where}",
        )
    else:
        yield found


def _nothing_held(found: Discrepancy, instance: Instance, needed: Amounts) -> Discrepancy:
    return replace(
        found,
        code=DiscrepancyCode.MISSING_ALLOCATION,
        text=(
            f"instance {instance.uuid} needs {amounts_text(total_by_class(needed))} and holds "
            "nothing"
        ),
        advice=_CLAIMS if instance.task is None else _BUSY,
        # While the instance has a task, its agent may be about to report that it needs nothing.
        mend=Repair.CLAIM if instance.task is None else None,
    )


def _surplus(held: Amounts, needed: Amounts) -> Mapping[str, int]:
    """Return the amounts held beyond those needed, by class."""
    more = {
        uuid: {
            name: amount - needed.get(uuid, {}).get(name, 0)
            for name, amount in amounts.items()
            if amount > needed.get(uuid, {}).get(name, 0)
        }
        for uuid, amounts in held.items()
    }
    return total_by_class(more)


def _stuck(snapshot: AuditSnapshot, instance: Instance) -> Iterator[Discrepancy]:
    migration = snapshot.move_of(instance)
    since_s = max(instance.updated_at_s, migration.updated_at_s if migration else 0.0)
    is_new = not snapshot.is_older(since_s, snapshot.ages.task_s)
    if instance.task is None or is_new or instance.uuid in snapshot.waiting:
        return
    turn = turn_of(instance, migration)
    if turn is None and instance.task is Task.DELETING:
        reason, advice = (
            "any agent may carry it out, and none has",
            "check that agents run, and see their logs",
        )
    elif turn is None:
        reason, advice = "no host is responsible for it", _RESET
    elif snapshot.is_up(snapshot.services.get(turn)):
        reason = f"it waits for {turn}, whose service is up"
        advice = f"see the log of the agent of {turn}"
    elif migration is not None and migration.turn == turn:
        return  # the move is already reported as stalled
    else:
        reason = f"it waits for {turn}, whose service is down"
        advice = f"start the agent of {turn}; if it is lost, evacuate or delete the instance"
    yield Discrepancy(
        code=DiscrepancyCode.TASK_STUCK,
        kind=Kind.INSTANCE,
        key=instance.uuid,
        text=(
            f"instance {instance.uuid} has been {instance.task} for {age_text(snapshot, since_s)}; "
            f"{reason}"
        ),
        advice=advice,
        host=turn or instance.host,
        since_s=since_s,
    )


def turn_of(instance: Instance, migration: Migration | None) -> str | None:
    """Return the name of the host that must carry out an instance's task; None if no host must."""
    is_deleted = instance.task is Task.DELETING
    if migration is not None and migration.turn is not None and not is_deleted:
        return migration.turn
    action = instance.action
    is_evacuated = action is not None and action.name == EVACUATE.action
    return instance.host if instance.task in HOST_TASKS and not is_evacuated else None


def place_of(instance: Instance, migration: Migration | None) -> Place:
    """Return the place whose capacity an instance holds, with its size there.

    From the start of a move until its arrival this is the destination, because the migration holds
    the former allocations.

    Args:
        instance: an instance on a host.
        migration: its move in progress, or None.
    """
    if migration is not None and migration.stage in _ON_ITS_WAY:
        return migration.destination
    return Place(instance.host or "", instance.node or "", instance.flavor, instance.assignment)


def needed_by(snapshot: AuditSnapshot, instance: Instance) -> Amounts | None:
    """Return the allocations that an instance needs, or None if its host does not exist.

    Raises:
        InvalidInputError: the flavor or the image has a spec that cannot be parsed.
    """
    place = place_of(instance, snapshot.move_of(instance))
    host = snapshot.hosts.get((place.host, place.node))
    if host is None:
        return None
    image = instance.image
    needs = with_hardware(
        needs_of(place.flavor, image.traits if image else None), place.flavor, image
    )
    takes = allocations_by_provider(host.uuid, without_zeros(needs.amounts), place.assignment)
    found = {uuid: without_zeros(amounts) for uuid, amounts in takes.items()}
    return {uuid: amounts for uuid, amounts in found.items() if amounts}


def suspect_request(snapshot: AuditSnapshot, pending: PendingRequest) -> Iterator[Discrepancy]:
    """Yield the suspicion about a pending request, if it has waited for too long."""
    request, since_s = pending.request, pending.accepted_at_s
    if not snapshot.is_older(since_s, snapshot.ages.request_s):
        return
    count = len(request.instance_uuids)
    which = f"instance {request.instance_uuids[0]}" if count == 1 else f"{count} instances"
    yield Discrepancy(
        code=DiscrepancyCode.REQUEST_WAITS,
        kind=Kind.PENDING_REQUEST,
        key=request.request_id,
        text=(
            f"request {request.request_id} ({request.operation} of {which}) has waited "
            f"{age_text(snapshot, since_s)} for a scheduler"
        ),
        advice="check that a scheduler runs (`berth scheduler`), and see its log for the request",
        since_s=since_s,
    )


async def recheck_request(
    ledger: Ledger, snapshot: AuditSnapshot, suspicion: Discrepancy
) -> Discrepancy | None:
    """Return the suspicion, with its instance's last refusal, if the request has not changed.

    The result is None if the request is no longer pending or has changed.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    pending = await ledger.get(PendingRequest, suspicion.key)
    if pending is None or pending != snapshot.requests[suspicion.key]:
        return None
    # The refusal shows the operator whether the request waits for room or for a scheduler.
    why = await _last_refusal(ledger, pending.request.instance_uuids[0])
    return replace(suspicion, text=f"{suspicion.text}; {why}")


async def _last_refusal(ledger: Ledger, instance_uuid: str) -> str:
    instance = await ledger.get(Instance, instance_uuid)
    if instance is None:
        return "its instance does not exist"
    decision = None
    # The decision contains the full reason, and the fault only a summary.
    if instance.decision_id is not None:
        decision = await ledger.get(Decision, instance.decision_id)
    if decision is not None and decision.refusal is not None:
        return f"last refused: {decision.refusal.message}"
    if instance.fault is not None:
        return f"the last fault of its instance: {instance.fault.message}"
    return "it was never refused"
