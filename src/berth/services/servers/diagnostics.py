"""The resource usage of running guests, read through the agents of their hosts."""

from dataclasses import dataclass
from typing import Final

from berth.domain.compute.instance import Instance
from berth.domain.errors import InstanceStateError, UnavailableError
from berth.ports.bus import Bus, Command
from berth.ports.virt import GuestDiagnostics

_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class DiagnosticsAsked:
    """A request for the resource usage of a guest."""

    instance_uuid: str


@dataclass(frozen=True, slots=True)
class DiagnosticsTold:
    """The resource usage of a guest."""

    diagnostics: GuestDiagnostics


DIAGNOSTICS: Command[DiagnosticsAsked, DiagnosticsTold] = Command(
    "agent", "diagnostics", DiagnosticsAsked, DiagnosticsTold
)
"""Read the resource usage of a guest; served like `CONSOLE`."""


async def read_diagnostics(bus: Bus, instance: Instance) -> GuestDiagnostics:
    """Return the resource usage of the guest of an instance.

    Raises:
        InstanceStateError: the instance has no host.
        UnavailableError: the agent of its host does not answer.
        DriverError: the guest is not running.
        UnsupportedFeatureError: the driver has no diagnostics.
    """
    if instance.host is None:
        raise InstanceStateError("get diagnostics", instance.uuid, "host", "none")
    asked = DiagnosticsAsked(instance.uuid)
    try:
        told = await bus.call(DIAGNOSTICS, asked, timeout_s=_TIMEOUT_S, server=instance.host)
    except UnavailableError as error:
        raise UnavailableError(
            f"cannot read the diagnostics of instance {instance.uuid}: the agent of its host does "
            "not answer, or is of an older version; try again"
        ) from error
    return told.diagnostics
