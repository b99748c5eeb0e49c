"""Ending guests: asking them first, and without asking."""

from berth.adapters.virt.libvirt import binding
from berth.adapters.virt.libvirt.binding import Domain, ErrorCode
from berth.adapters.virt.libvirt.connection import Connection, tolerant
from berth.ports.clock import Clock

_POLL_S = 0.05
_PRESS_NS = 2_000_000_000
"""A guest that is not listening yet has not heard the power button, so it is pressed again."""


async def press(connection: Connection, clock: Clock, uuid: str, grace_s: float) -> None:
    """Press the power button until a guest has turned itself off, or the time is over."""
    now_ns = press_ns = clock.ticks_ns()
    until_ns = now_ns + int(grace_s * 1e9)
    while now_ns < until_ns and await connection.on(uuid, _is_active):
        if now_ns >= press_ns:
            await connection.on(uuid, _press)
            press_ns += _PRESS_NS
        await clock.sleep(_POLL_S)
        now_ns = clock.ticks_ns()


def _is_active(domain: Domain) -> bool:
    return bool(domain.isActive())


def cut_off(domain: Domain) -> None:
    """End a guest without asking it, and forget its memory; one that is off stays so."""
    if domain.isActive():
        tolerant(ErrorCode.OPERATION_INVALID, lambda one: one.destroy(), domain)
    if domain.hasManagedSaveImage():
        domain.managedSaveRemove()


def _press(domain: Domain) -> None:
    flags = binding.ACPI_BUTTON
    tolerant(ErrorCode.OPERATION_INVALID, lambda one: one.shutdownFlags(flags), domain)
