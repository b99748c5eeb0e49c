"""Reconciliation of a host with the ledger.

Events of drivers may be lost, and an agent may have been down. Therefore all guests are listed
periodically and at each start of the agent. Unknown guests are reported and left alone.

While the guests are listed, tasks continue. Therefore the comparison only collects anomalies; each
is checked again, and repaired, while the pool runs nothing else for its instance.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from berth.agent.executor.host_context import HostContext
from berth.agent.executor.leftovers import HostFinding, clear_leftover
from berth.domain.compute.instance import Instance
from berth.domain.compute.step import LEFTOVER_AGE_S, UNKNOWN
from berth.ports.virt import OrphanFiles, Power
from berth.services.gateway.guest_states import KEPT_OFF, differs, is_restartable

ORPHAN: Final = "orphan_guest"
ENDED: Final = "guest_ended"
REMOVED: Final = "guest_removed"


class HostAnomaly(NamedTuple):
    """A possible difference between a host and the ledger.

    Attributes:
        instance_uuid: the instance.
        power: the power state of its guest, or None if it has no guest.
        leftover: the files without a guest if the anomaly is about files, otherwise None.
    """

    instance_uuid: str
    power: Power | None
    leftover: OrphanFiles | None = None

    @property
    def aspect(self) -> str:
        """A key that is unique among the anomalies of one instance on one host."""
        return "" if self.leftover is None else f"files {self.leftover.address}"

    @property
    def leftover_key(self) -> str:
        """A key that is unique among the leftovers on one host; empty if this is about a guest."""
        leftover = self.leftover
        return "" if leftover is None else leftover.address or f"files of {self.instance_uuid}"


@dataclass(slots=True)
class HostComparison:
    """The result of comparing a host with the ledger.

    Attributes:
        missing: instances that should run but have no guest, or a crashed one.
        anomalies: other possible differences from the ledger, including guests that the driver has
            no record of, and files without a guest.
        error: the error of the driver if it could not list files without a guest, otherwise None.
    """

    missing: list[Instance] = field(default_factory=list[Instance])
    anomalies: list[HostAnomaly] = field(default_factory=list[HostAnomaly])
    error: Exception | None = None


async def reconcile(
    context: HostContext,
    instances: Sequence[Instance] | None = None,
    *,
    seeks_leftovers: bool = True,
) -> HostComparison:
    """Compare a host with the ledger.

    Args:
        context: the host.
        instances: the instances that the ledger has on the host; None asks the control plane.
        seeks_leftovers: whether to list files without a guest.

    Raises:
        DriverError: the driver cannot list the guests.
        UnavailableError: the control plane cannot be reached.
    """
    if instances is None:
        instances = await context.gateway.instances(context.host)
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
        if instance is None or differs(instance, power):
            findings.anomalies.append(HostAnomaly(uuid, power))
        elif is_restartable(instance, power):
            findings.missing.append(instance)
    if seeks_leftovers:
        try:
            findings.anomalies += await _leftovers(context)
        except Exception as error:  # noqa: BLE001 - whatever it is, missing guests are restarted
            findings.error = error
    return findings


async def _leftovers(context: HostContext) -> list[HostAnomaly]:
    now_s, found = context.clock.now_s(), await context.driver.leftovers()
    old = [one for one in found if now_s - one.since_s > LEFTOVER_AGE_S]
    return [HostAnomaly(one.instance_uuid, None, one) for one in old]


async def repair(context: HostContext, anomaly: HostAnomaly) -> HostFinding | None:
    """Check an anomaly again and repair it.

    The caller must run nothing else for the instance meanwhile.

    Returns:
        The finding, or None when there is no longer a difference or nothing needs to be done.

    Raises:
        DriverError: the repair failed.
        UnavailableError: the control plane cannot be reached.
    """
    if anomaly.leftover is not None:
        return await clear_leftover(context, anomaly.leftover)
    uuid = anomaly.instance_uuid
    # The guest may have gone or changed since the comparison.
    guests = {guest.instance_uuid: guest for guest in await context.driver.guests()}
    guest = guests.get(uuid)
    if guest is not None and guest.is_orphan:
        return _orphan(uuid)
    standing = await context.gateway.standing(context.host, uuid)
    instance = standing.instance
    if instance is not None and instance.host == context.host:
        return await _repair_here(context, instance, None if guest is None else guest.power)
    # The instance is known here if it is moving to or from this host.
    if guest is None or instance is not None:
        return None
    if standing.where == UNKNOWN:
        return _orphan(uuid)
    await context.driver.destroy(uuid)
    return HostFinding(
        REMOVED,
        f"this host had a guest of instance {uuid}, but the instance is {standing.where}; "
        "the guest was destroyed",
    )


def _orphan(uuid: str) -> HostFinding:
    return HostFinding(
        ORPHAN, f"guest {uuid} on this host has no record; inspect it", is_repaired=False
    )


async def _repair_here(
    context: HostContext, instance: Instance, power: Power | None
) -> HostFinding | None:
    if not differs(instance, power):
        return None
    if instance.status in KEPT_OFF:
        await context.driver.stop(instance.uuid, grace_s=context.stop_grace_s)
        return HostFinding(
            REMOVED,
            f"the guest of instance {instance.uuid} was on, but the instance is off; "
            "the guest was stopped",
        )
    text = await context.gateway.report_power(context.host, instance.uuid, instance.revision, power)
    # None means that nothing was recorded, for example because the instance had changed meanwhile;
    # such a change takes precedence.
    if text is None:
        return None
    return HostFinding(ENDED, f"the guest of instance {instance.uuid} {text}")
