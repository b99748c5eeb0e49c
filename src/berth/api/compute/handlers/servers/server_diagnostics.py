"""Handler for the diagnostics of servers."""

from typing import Final

from berth.api.compute.handlers.servers.servers import server_of
from berth.api.compute.schemas.diagnostics import (
    CpuDiagnostics,
    DiagnosticsAnswer,
    DiskDiagnostics,
    MemoryDiagnostics,
)
from berth.api.errors import HttpError
from berth.api.routing import Answer, Call
from berth.domain.compute.instance import Instance
from berth.domain.errors import DriverError, UnsupportedFeatureError
from berth.ports.virt import GuestDiagnostics
from berth.services.servers.diagnostics import read_diagnostics

# Microversion 2.48 replaces the fields of each driver with the same fields for all drivers.
_STANDARD: Final = (2, 48)
_KIB_PER_MIB: Final = 1024


async def show_diagnostics(call: Call) -> Answer:
    """Show the use of CPUs, memory and disks by the guest of a server.

    Raises:
        HttpError: the driver has no diagnostics (501), or the guest is not running (409).
        InstanceStateError: the server has no host.
        UnavailableError: the agent of the host does not answer.
    """
    instance = await server_of(call)
    try:
        found = await read_diagnostics(call.parts.bus, instance)
    except UnsupportedFeatureError as error:
        raise HttpError(
            501, "The driver of the server's host does not support diagnostics."
        ) from error
    except DriverError as error:
        text = f"Instance {instance.uuid} has no diagnostics now, because its guest is not running."
        raise HttpError(409, text) from error
    if call.version >= _STANDARD:
        return Answer(_standard(call, instance, found))
    return Answer(_own(found))


def _standard(call: Call, instance: Instance, found: GuestDiagnostics) -> DiagnosticsAnswer:
    launched_s = instance.launched_at_s
    cpus = [
        CpuDiagnostics(id=number, time=time_ns, utilisation=None)
        for number, time_ns in enumerate(found.cpu_times_ns)
    ]
    disks = [
        DiskDiagnostics(
            read_bytes=one.read_bytes,
            read_requests=one.read_requests,
            write_bytes=one.write_bytes,
            write_requests=one.write_requests,
            errors_count=one.errors,
        )
        for one in found.disks
    ]
    return DiagnosticsAnswer(
        config_drive=bool(instance.extra.get("config_drive")),
        state="running",
        driver="libvirt",
        hypervisor=found.hypervisor,
        hypervisor_os="linux",
        # As in Nova, the seconds since the last launch (a build or an unshelve, for example), not
        # since the last start.
        uptime=None if launched_s is None else max(int(call.parts.clock.now_s() - launched_s), 0),
        num_cpus=len(cpus),
        num_nics=0,
        num_disks=len(disks),
        cpu_details=cpus,
        nic_details=[],
        disk_details=disks,
        memory_details=MemoryDiagnostics(
            maximum=found.memory_kb // _KIB_PER_MIB, used=found.memory_used_kb // _KIB_PER_MIB
        ),
    )


def _own(found: GuestDiagnostics) -> dict[str, int]:
    """Return the fields that Nova's libvirt driver reports before microversion 2.48."""
    fields = {f"cpu{at}_time": time_ns for at, time_ns in enumerate(found.cpu_times_ns)}
    for disk in found.disks:
        fields |= {
            f"{disk.name}_read_req": disk.read_requests,
            f"{disk.name}_read": disk.read_bytes,
            f"{disk.name}_write_req": disk.write_requests,
            f"{disk.name}_write": disk.write_bytes,
            f"{disk.name}_errors": -1 if disk.errors is None else disk.errors,
        }
    fields |= {"memory": found.memory_kb, "memory-actual": found.memory_used_kb}
    return fields if found.memory_rss_kb is None else fields | {"memory-rss": found.memory_rss_kb}
