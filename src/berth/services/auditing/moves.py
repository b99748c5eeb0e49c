"""The audit of moves, each of which a host must work on until it ends."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from berth.domain.compute.host import Service
from berth.domain.compute.instance import Instance, Task
from berth.domain.compute.migration import Migration, Stage
from berth.domain.ledger.discrepancy import Discrepancy, DiscrepancyCode
from berth.domain.ledger.record import Kind
from berth.ports.ledger import Ledger
from berth.services.auditing.audit_snapshot import (
    AuditSnapshot,
    age_text,
    amounts_text,
    held_by,
    total_by_class,
)

_LEFT_OVER: Final = frozenset({Stage.LEFT_BEHIND, Stage.ABANDONED})

_EVACUATE: Final = (
    "wait until {host} is back, or evacuate the instance (`berth server evacuate`), which gives up "
    "the move"
)
_GIVE_UP: Final = (
    "wait until {host} is back, or reset the state of the instance (`berth server reset-state`), "
    "which gives up the move"
)
_ADVICE: Final[Mapping[Stage, str]] = {
    Stage.LEAVING: _EVACUATE,
    Stage.MOVING: _EVACUATE,
    Stage.RESTORING: _EVACUATE,
    Stage.RETURNING: _EVACUATE,
    Stage.ARRIVING: _GIVE_UP,
    Stage.PREPARING: _GIVE_UP,
    Stage.WITHDRAWING: _GIVE_UP,
    Stage.LANDING: (
        "wait until {host} is back: the guest has left its host, so only {host} can have it; if "
        "{host} is lost for good, reset the state of the instance to ERROR and rebuild it"
    ),
    Stage.CONFIRMING: (
        "wait until {host} is back: the instance runs elsewhere, and only the room that it had "
        "there is kept"
    ),
    Stage.ARRIVED: (
        "confirm the move (`berth server confirm`), which cannot be reverted while {host} is down"
    ),
}


def suspect_move(snapshot: AuditSnapshot, migration: Migration) -> Iterator[Discrepancy]:
    """Yield the suspicions about a move that has not ended."""
    instance = snapshot.instances.get(migration.instance_uuid)
    if migration.stage in _LEFT_OVER:
        yield from _left_over(snapshot, migration)
    elif instance is None or instance.migration_uuid != migration.uuid:
        yield from _forgotten(snapshot, migration)
    elif instance.task is not Task.DELETING:
        yield from _stalled(snapshot, migration)


async def recheck_move(
    ledger: Ledger, snapshot: AuditSnapshot, suspicion: Discrepancy
) -> Discrepancy | None:
    """Return the discrepancy if it still exists and the move has not changed, otherwise None.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    before = snapshot.migrations[suspicion.key]
    # Any change means that a host is working on the move.
    if await ledger.get(Migration, before.uuid) != before:
        return None
    if suspicion.code is DiscrepancyCode.MOVE_FORGOTTEN:
        instance = await ledger.get(Instance, before.instance_uuid)
        if instance is not None and instance.migration_uuid == before.uuid:
            return None
    elif not snapshot.is_up(snapshot.services.get(_host_of(before))):
        service = await ledger.get(Service, _host_of(before))
        if snapshot.is_up(service):
            return None
    held = await held_by(ledger, before.uuid)
    return replace(suspicion, held=held, lost=total_by_class(held))


def _host_of(migration: Migration) -> str:
    """Return the name of the host that a move waits for, which is the source if it has no turn."""
    return migration.turn or migration.source.host


def _left_over(snapshot: AuditSnapshot, migration: Migration) -> Iterator[Discrepancy]:
    host = _host_of(migration)
    is_up = snapshot.is_up(snapshot.services.get(host))
    # An agent that is up cleans up soon, so only a much older leftover is suspicious.
    age_s = snapshot.ages.task_s if is_up else snapshot.ages.grace_s
    if not snapshot.is_older(migration.updated_at_s, age_s):
        return
    if host not in snapshot.services and migration.uuid not in snapshot.held:
        return  # the host was removed, and no capacity is lost
    state = "up" if is_up else _down(snapshot, host)
    advice = (
        f"see the log of the agent of {host}"
        if is_up
        else f"start the agent of {host}, which deletes it; if {host} is lost for good, "
        f"`berth host write-off {host}` frees it"
    )
    yield _move(
        snapshot,
        DiscrepancyCode.MOVE_LEFT_BEHIND,
        migration,
        f"{host} is {state} and has not deleted what the move left there",
        advice,
    )


def _forgotten(snapshot: AuditSnapshot, migration: Migration) -> Iterator[Discrepancy]:
    if snapshot.is_older(migration.updated_at_s, snapshot.ages.grace_s):
        text = f"it is {migration.stage}, but its instance is gone or no longer refers to it"
        yield _move(
            snapshot,
            DiscrepancyCode.MOVE_FORGOTTEN,
            migration,
            text,
            "delete the instance, or free what the move holds through the Placement API",
        )


def _stalled(snapshot: AuditSnapshot, migration: Migration) -> Iterator[Discrepancy]:
    host = _host_of(migration)
    is_new = not snapshot.is_older(migration.updated_at_s, snapshot.ages.grace_s)
    # A stage that only a newer version knows has no advice here.
    is_known = migration.stage in _ADVICE
    if is_new or not is_known or snapshot.is_up(snapshot.services.get(host)):
        return
    yield _move(
        snapshot,
        DiscrepancyCode.MOVE_STALLED,
        migration,
        f"it is {migration.stage} and waits for {host}, which is {_down(snapshot, host)}",
        _ADVICE[migration.stage].format(host=host),
    )


def _down(snapshot: AuditSnapshot, host: str) -> str:
    """Return the state of a service that is not up, as text."""
    service = snapshot.services.get(host)
    if service is None:
        return "not registered"
    state = "forced down" if service.forced_down else "down"
    return f"{state} (last seen {age_text(snapshot, service.last_seen_s)} ago)"


def _move(
    snapshot: AuditSnapshot, code: DiscrepancyCode, migration: Migration, text: str, advice: str
) -> Discrepancy:
    host = _host_of(migration)
    held = snapshot.held.get(migration.uuid, {})
    service = snapshot.services.get(host)
    is_down = service is not None and not snapshot.is_up(service)
    last_seen_s = service.last_seen_s if service is not None and is_down else 0.0
    return Discrepancy(
        code=code,
        kind=Kind.MIGRATION,
        key=migration.uuid,
        text=(
            f"the {migration.kind} {migration.number} of instance {migration.instance_uuid}: "
            f"{text}; it holds {amounts_text(total_by_class(held))}"
        ),
        advice=advice,
        host=host,
        # The move has waited since its last step or the host's last heartbeat, whichever is later.
        since_s=max(migration.updated_at_s, last_seen_s),
        lost=total_by_class(held),
        held=held,
    )
