"""What libvirt tells about a guest: its power state, its use of resources and its VNC server."""

import socket
from xml.etree import ElementTree as ET

from berth.adapters.virt.libvirt.binding import OPEN_GRAPHICS_SKIPAUTH, Domain
from berth.ports.virt import DiskCounters, GuestDiagnostics, Power

# libvirt's states "running", "blocked", "shutting down" and "suspended by the guest" (ACPI S3).
_RUNNING = (1, 2, 4, 7)
_PAUSED = 3
_SHUT_OFF = 5
_CRASHED = 6
_PAUSED_REASONS = {
    2: "it is being moved",
    3: "its memory is being written to disk",
    5: "writing to its disk fails",
    6: "its watchdog fired",
    11: "it is being started",
}
_PANICKED = 10
_MOVING = 2
_OFF_BY_ITSELF = 1
# The power state and its reason, by libvirt's reason for the state "shut off". Other reasons do not
# say how the guest ended.
_OFF_POWERS = {
    _OFF_BY_ITSELF: (Power.STOPPED, "it shut itself down"),
    2: (Power.STOPPED, "it was forced off"),
    3: (Power.CRASHED, "its process is gone"),
    8: (Power.CRASHED, "libvirtd destroyed it while reconnecting to its process"),
}

_EVENT_POWERS = {
    3: Power.PAUSED,
    4: Power.RUNNING,
    8: Power.CRASHED,
}
_STARTED = 2
_STOPPED = 5
_ARRIVING = 1
_STOP_POWERS = {2: Power.CRASHED, 4: Power.SUSPENDED, 5: Power.CRASHED}
_STOP_MOVED = 3


def power_of(state: int, reason: int, *, is_saved: bool, known: Power) -> tuple[Power, str]:
    """Return the power state of a guest and its reason, which may be empty.

    Args:
        state: libvirt's domain state.
        reason: libvirt's reason for the state.
        is_saved: whether the guest's memory is saved.
        known: the last recorded power state.
    """
    if state in _RUNNING:
        return Power.RUNNING, ""
    if state == _CRASHED or (state == _PAUSED and reason == _PANICKED):
        return Power.CRASHED, "its kernel panicked"
    if state == _PAUSED:
        return Power.PAUSED, _PAUSED_REASONS.get(reason, "")
    if state == _SHUT_OFF:
        return _off(reason, is_saved=is_saved, known=known)
    return known, f"libvirt reports an unknown state ({state})"


def is_moving(state: int, reason: int) -> bool:
    """Return whether a guest is arriving, or is paused for the switchover of a migration."""
    return state == _PAUSED and reason in (_MOVING, 11)


def _off(reason: int, *, is_saved: bool, known: Power) -> tuple[Power, str]:
    if is_saved:
        return Power.SUSPENDED, ""
    if known in (Power.STOPPED, Power.CRASHED):
        return known, ""
    # A restarted libvirtd does not know how the guest ended. A normal shutdown would have been
    # recorded as `known`, so a crash is assumed.
    unseen = "its process is gone for an unknown reason; the host may have restarted"
    return _OFF_POWERS.get(reason, (Power.CRASHED, unseen))


def hint_of(event: int, detail: int) -> tuple[Power, str] | None:
    """Return the power state, with its reason, that an event implies; None if it implies none."""
    if event == _STARTED:
        return None if detail == _ARRIVING else (Power.RUNNING, "")
    if event == _STOPPED:
        if detail == _STOP_MOVED:
            return Power.STOPPED, "it has moved"
        return _STOP_POWERS.get(detail, Power.STOPPED), ""
    if event in _EVENT_POWERS:
        return _EVENT_POWERS[event], ""
    return None


def vnc_socket_of(domain: Domain) -> socket.socket | None:
    """Return a socket that is connected to the VNC server of a running guest.

    The result is None if the guest has no VNC server. The calls block the thread, and raise
    libvirt's own errors.
    """
    xml = ET.fromstring(domain.XMLDesc(0))  # noqa: S314 - libvirt wrote it
    if xml.find("devices/graphics[@type='vnc']") is None:
        return None
    return socket.socket(fileno=domain.openGraphicsFD(0, OPEN_GRAPHICS_SKIPAUTH))


def diagnostics_of(domain: Domain) -> GuestDiagnostics:
    """Return the use of resources by a running guest.

    The calls block the thread, and raise libvirt's own errors.
    """
    xml = ET.fromstring(domain.XMLDesc(0))  # noqa: S314 - libvirt wrote it
    _, memory_kb, used_kb, *_ = domain.info()
    cpus, _ = domain.vcpus()
    return GuestDiagnostics(
        hypervisor=xml.get("type", "qemu"),
        cpu_times_ns=tuple(time_ns for _, _, time_ns, _ in cpus),
        memory_kb=memory_kb,
        memory_used_kb=used_kb,
        memory_rss_kb=domain.memoryStats().get("rss"),
        disks=tuple(
            _counters(domain, target.get("dev", ""))
            for target in xml.iterfind("devices/disk/target")
        ),
    )


def _counters(domain: Domain, name: str) -> DiskCounters:
    read_requests, read_bytes, write_requests, write_bytes, errors = domain.blockStats(name)
    return DiskCounters(
        name,
        read_bytes=read_bytes,
        read_requests=read_requests,
        write_bytes=write_bytes,
        write_requests=write_requests,
        # libvirt returns -1, because QEMU reports no count of errors to it.
        errors=None if errors < 0 else errors,
    )
