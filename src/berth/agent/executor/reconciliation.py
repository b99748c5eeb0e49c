"""Reconciliation of a host with the ledger.

Events of drivers may be lost, and an agent may have been down. Therefore all guests are listed
periodically and at each start of the agent. Unknown guests are reported and left alone.

While the guests are listed, tasks continue. Therefore the comparison only collects anomalies; each
is checked again, and repaired, while the pool runs nothing else for its instance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from berth.agent.executor.disk_leftovers import LEFTOVER_AGE_S, HostFinding, clear_leftover
from berth.agent.executor.host_context import HostContext
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.migration import Migration
from berth.domain.ledger.write import Committed, Put
from berth.ports.ledger import InstanceQuery
from berth.ports.virt import OrphanFiles, Power

ORPHAN: Final = "orphan_guest"
ENDED: Final = "guest_ended"
REMOVED: Final = "guest_removed"

_ALL = 2**31 - 1
_OFF = frozenset({Power.STOPPED, Power.CRASHED, None})
_ON = frozenset({Status.ACTIVE, Status.PAUSED, Status.SUSPENDED})
_RUNNING = frozenset({Status.ACTIVE, Status.RESIZED})
_GONE = frozenset({Power.CRASHED, None})
_LIVE = frozenset({Power.RUNNING, Power.PAUSED})
_ENDED = (Status.SHUTOFF, "has ended; the instance is now off")
# Maps the power state of a guest that was suspended or resumed with the host's own tools to the new
# status of its instance and the end of the finding's text.
_CHANGED: Final[Mapping[Power | None, tuple[Status, str]]] = {
    Power.SUSPENDED: (
        Status.SUSPENDED,
        "was suspended on its host; the instance is now suspended and can be resumed",
    ),
    Power.RUNNING: (Status.ACTIVE, "was resumed on its host; the instance is now active"),
}


class HostAnomaly(NamedTuple):
    """A possible difference between a host and the ledger.

    Attributes:
        instance_uuid: the instance.
        power: the power state of its guest, or None if it has no guest.
        leftover: the files without a guest, if the anomaly is about files.
    """

    instance_uuid: str
    power: Power | None
    leftover: OrphanFiles | None = None

    @property
    def aspect(self) -> str:
        """A key that is unique among the anomalies of one instance on one host."""
        return "" if self.leftover is None else f"files {self.leftover.address}"


@dataclass(slots=True)
class HostComparison:
    """The result of comparing a host with the ledger.

    Attributes:
        missing: instances that should run but have no guest, or a crashed one.
        anomalies: other possible differences from the ledger, including guests that the driver has
            no record of, and files without a guest.
    """

    missing: list[Instance] = field(default_factory=list[Instance])
    anomalies: list[HostAnomaly] = field(default_factory=list[HostAnomaly])


async def reconcile(
    context: HostContext, instances: Sequence[Instance] | None = None
) -> HostComparison:
    """Compare a host with the ledger.

    Args:
        context: the host.
        instances: the instances that the ledger has on the host; None reads them from the ledger.

    Raises:
        DriverError: the driver cannot list the guests or files.
        UnavailableError: the ledger cannot be reached.
    """
    if instances is None:
        query = InstanceQuery(host=context.host, limit=_ALL)
        instances = await context.ledger.instances(query)
    findings = HostComparison()
    powers: dict[str, Power | None] = dict.fromkeys(one.uuid for one in instances)
    for guest in await context.driver.guests():
        if guest.is_orphan:
            findings.anomalies.append(HostAnomaly(guest.instance_uuid, guest.power))
        else:
            powers[guest.instance_uuid] = guest.power
    here = {one.uuid: one for one in instances}
    for uuid, power in powers.items():
        instance = here.get(uuid)
        if instance is None or _differs(instance, power):
            findings.anomalies.append(HostAnomaly(uuid, power))
        elif _should_run(instance) and power in _GONE:
            findings.missing.append(instance)
    now_s = context.clock.now_s()
    for one in await context.driver.leftovers():
        if now_s - one.since_s > LEFTOVER_AGE_S:
            findings.anomalies.append(HostAnomaly(one.instance_uuid, None, one))
    return findings


async def repair(context: HostContext, anomaly: HostAnomaly) -> HostFinding | None:
    """Check an anomaly again and repair it.

    The caller must run nothing else for the instance meanwhile.

    Returns:
        The finding, or None when there is no longer a difference or nothing needs to be done.

    Raises:
        DriverError: the repair failed.
        UnavailableError: the ledger cannot be reached.
    """
    if anomaly.leftover is not None:
        return await clear_leftover(context, anomaly.leftover)
    uuid = anomaly.instance_uuid
    # The guest may have gone or changed since the comparison.
    guests = {guest.instance_uuid: guest for guest in await context.driver.guests()}
    guest = guests.get(uuid)
    if guest is not None and guest.is_orphan:
        return _orphan(uuid)
    instance = await context.ledger.get(Instance, uuid)
    if instance is None:
        return None if guest is None else _orphan(uuid)
    if instance.host == context.host and instance.status is not Status.DELETED:
        return await _repair_here(context, instance, None if guest is None else guest.power)
    move = instance.migration_uuid
    migration = None if move is None else await context.ledger.get(Migration, move)
    if guest is None or (migration is not None and migration.concerns(context.host)):
        return None
    await context.driver.destroy(uuid)
    where = "deleted" if instance.status is Status.DELETED else f"on {instance.host or 'no host'}"
    return HostFinding(
        REMOVED,
        f"this host had a guest of instance {uuid}, but the instance is {where}; "
        "the guest was destroyed",
    )


def _orphan(uuid: str) -> HostFinding:
    return HostFinding(
        ORPHAN, f"guest {uuid} on this host has no record; inspect it", is_repaired=False
    )


async def _repair_here(
    context: HostContext, instance: Instance, power: Power | None
) -> HostFinding | None:
    if not _differs(instance, power):
        return None
    if instance.status is Status.SHUTOFF:
        await context.driver.stop(instance.uuid, grace_s=context.stop_grace_s)
        return HostFinding(
            REMOVED,
            f"the guest of instance {instance.uuid} was on, but the instance is off; "
            "the guest was stopped",
        )
    status, text = _CHANGED.get(power, _ENDED)
    now = replace(instance, status=status, updated_at_s=context.clock.now_s())
    (outcome,) = await context.ledger.commit([(Put(now),)])
    # The ledger rejects the write when the instance has changed; that change takes precedence.
    if not isinstance(outcome, Committed):
        return None
    return HostFinding(ENDED, f"the guest of instance {instance.uuid} {text}")


def _should_run(instance: Instance) -> bool:
    return instance.status in _RUNNING and instance.task is None


def _differs(instance: Instance, power: Power | None) -> bool:
    """Return whether the guest of an idle instance contradicts the instance's status.

    A missing or crashed guest that should run is not a contradiction: it is restarted.
    """
    if instance.task is not None or instance.migration_uuid is not None:
        return False
    if _should_run(instance) and power in _GONE:
        return False
    if instance.status in _ON:
        has_changed = (power is Power.SUSPENDED) != (instance.status is Status.SUSPENDED)
        return power in _OFF or (has_changed and power in _CHANGED)
    return instance.status is Status.SHUTOFF and power in _LIVE
