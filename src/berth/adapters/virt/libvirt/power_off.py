"""Functions to shut down guests, gracefully or by force."""

import asyncio
from collections.abc import Callable

from berth.adapters.virt.libvirt import binding
from berth.adapters.virt.libvirt.binding import Domain, ErrorCode
from berth.adapters.virt.libvirt.connection import (
    LibvirtConnection,
    is_missing_domain,
    none_if_refused,
)
from berth.adapters.virt.libvirt.errors import LibvirtRefusedError
from berth.domain.errors import DriverError
from berth.ports.clock import Clock

_POLL_S = 0.05
# The power button is pressed again after this time, since a booting guest may ignore it.
_PRESS_NS = 2_000_000_000


async def press_power_button(
    connection: LibvirtConnection, clock: Clock, uuid: str, grace_s: float
) -> bool:
    """Press the power button until a guest is off or the grace period is over.

    Calls that libvirt rejects are repeated until then.

    Args:
        connection: calls libvirtd.
        clock: measures the grace period.
        uuid: the guest.
        grace_s: the grace period in seconds.

    Returns:
        Whether libvirt has answered all calls in time. While QEMU hangs, libvirt may leave calls
        unanswered, and rejects every change of the guest except its destruction.

    Raises:
        LibvirtRefusedError: the guest does not exist.
    """
    now_ns = press_ns = clock.ticks_ns()
    until_ns = now_ns + int(grace_s * 1e9)
    try:
        while now_ns < until_ns:
            if await _in_time(connection, uuid, _is_active, until_ns - now_ns) is False:
                break
            if now_ns >= press_ns:
                await _in_time(connection, uuid, _press, until_ns - clock.ticks_ns())
                press_ns += _PRESS_NS
            await clock.sleep(_POLL_S)
            now_ns = clock.ticks_ns()
    except TimeoutError:
        return False
    return True


async def _in_time(
    connection: LibvirtConnection, uuid: str, work: Callable[[Domain], bool], left_ns: int
) -> bool | None:
    """Run a function with a guest's domain; return its result, or None when the call fails.

    Raises:
        LibvirtRefusedError: the guest does not exist.
        TimeoutError: the call did not end in time and was abandoned.
    """
    try:
        async with asyncio.timeout(left_ns / 1e9):
            return await connection.on(uuid, work, is_long=True)
    except DriverError as error:
        if isinstance(error, LibvirtRefusedError) and is_missing_domain(error):
            raise
        return None


def _is_active(domain: Domain) -> bool:
    return bool(domain.isActive())


def force_off(domain: Domain) -> None:
    """Kill a guest's process, if any, and delete its saved memory.

    This works even when QEMU hangs, because libvirt kills the process before it waits for other
    jobs on the guest.
    """
    if domain.isActive():
        none_if_refused(ErrorCode.OPERATION_INVALID, lambda one: one.destroy(), domain)
    if domain.hasManagedSaveImage():
        domain.managedSaveRemove()


def _press(domain: Domain) -> bool:
    flags = binding.ACPI_BUTTON
    invalid = ErrorCode.OPERATION_INVALID
    return none_if_refused(invalid, lambda one: one.shutdownFlags(flags), domain) is not None
