"""What libvirt says of a guest's state, as what the port says; and its events, as hints."""

from berth.ports.virt import Power

# Running, blocked, being shut down, asleep by its own will (ACPI S3).
_RUNNING = (1, 2, 4, 7)
_PAUSED = 3
_SHUT_OFF = 5
_CRASHED = 6
_PAUSED_REASONS = {
    2: "it is being moved",
    3: "its memory is being written to disk",
    5: "its disk does not take what it writes",
    6: "its watchdog has barked",
    11: "it is being started",
}
_PANICKED = 10
_MOVING = 2
_OFF_BY_ITSELF = 1
# By the reason why a guest is off; the rest says nothing about how it ended.
_OFF_POWERS = {
    _OFF_BY_ITSELF: (Power.STOPPED, "it turned itself off"),
    2: (Power.STOPPED, "somebody has cut it off"),
    3: (Power.CRASHED, "its process is gone"),
    8: (Power.CRASHED, "libvirtd has ended it, since it could not go on with it"),
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
    """Return what a guest does, and why if that is known.

    Args:
        state: libvirt's.
        reason: libvirt's, for that state.
        is_saved: its memory is kept on disk.
        known: what it was last told to do, or has been seen to do.
    """
    if state in _RUNNING:
        return Power.RUNNING, ""
    if state == _CRASHED or (state == _PAUSED and reason == _PANICKED):
        return Power.CRASHED, "its kernel panicked"
    if state == _PAUSED:
        return Power.PAUSED, _PAUSED_REASONS.get(reason, "")
    if state == _SHUT_OFF:
        return _off(reason, is_saved=is_saved, known=known)
    return known, f"libvirt does not say what it does (state {state})"


def is_moving(state: int, reason: int) -> bool:
    """Tell whether a guest arrives here, or stands still for the last moment before it has left."""
    return state == _PAUSED and reason in (_MOVING, 11)


def _off(reason: int, *, is_saved: bool, known: Power) -> tuple[Power, str]:
    if is_saved:
        return Power.SUSPENDED, ""
    if known in (Power.STOPPED, Power.CRASHED):
        return known, ""
    # A libvirtd that was started since does not know how a guest has ended.
    unseen = "it is gone, and nobody has seen its end; the host may have restarted"
    return _OFF_POWERS.get(reason, (Power.CRASHED, unseen))


def hint_of(event: int, detail: int) -> tuple[Power, str] | None:
    """Return what an event of a guest's life says; None when it says nothing of that."""
    if event == _STARTED:
        return None if detail == _ARRIVING else (Power.RUNNING, "")
    if event == _STOPPED:
        if detail == _STOP_MOVED:
            return Power.STOPPED, "it has moved"
        return _STOP_POWERS.get(detail, Power.STOPPED), ""
    if event in _EVENT_POWERS:
        return _EVENT_POWERS[event], ""
    return None
