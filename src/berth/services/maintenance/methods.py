"""The method by which a drain moves a server, chosen by the server's status."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from berth.domain.compute import lifecycle
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.lifecycle import Transition
from berth.domain.compute.maintenance import Drain, DrainMode
from berth.domain.compute.observed import observer_of
from berth.domain.compute.request import Operation
from berth.services.requests.permissions import LOCKED


class Method(NamedTuple):
    """A way to get a server off its host.

    `operation` asks a scheduler for a destination; None if the server needs none.
    """

    name: str
    step: Transition
    operation: Operation | None = None


class Hindrance(NamedTuple):
    """Why a server cannot be moved now; `passes` tells whether this ends without an operator."""

    reason: str
    passes: bool = False


LIVE: Final = Method("live", lifecycle.LIVE_MIGRATE, Operation.LIVE_MIGRATE)
COLD: Final = Method("cold", lifecycle.MIGRATE, Operation.MIGRATE)
SHELVE: Final = Method("shelve", lifecycle.SHELVE)
OFFLOAD: Final = Method("offload", lifecycle.SHELVE_OFFLOAD)

_METHODS: Final[Mapping[DrainMode, Mapping[Status, Method]]] = {
    # A live migration needs a running guest. Moving one that is off interrupts nothing.
    DrainMode.LIVE: {Status.ACTIVE: LIVE, Status.PAUSED: LIVE, Status.SHUTOFF: COLD},
    DrainMode.COLD: {Status.ACTIVE: COLD, Status.SHUTOFF: COLD},
    DrainMode.SHELVE: dict.fromkeys(lifecycle.SHELVE.begins, SHELVE),
}
_REASONS: Final[Mapping[Status, str]] = {
    Status.PAUSED: "is paused, so it cannot be moved cold; unpause it, or drain with mode live",
    Status.SUSPENDED: "is suspended; resume it, or drain with mode shelve",
    Status.RESIZED: "waits for the confirmation of a resize; confirm or revert it",
    Status.RESCUED: "runs from a rescue image; unrescue it",
    Status.SOFT_DELETED: "is deleted but can be restored; delete it with --force, or restore it",
    Status.ERROR: "is in ERROR; rebuild it, reset its state, or delete it",
}


def method_of(instance: Instance, drain: Drain) -> Method | Hindrance:
    """Return the method for a server on the drained host, or why it cannot be moved now."""
    if (cloud := observer_of(instance)) is not None:
        return Hindrance(f"is run by {cloud}; migrate it there, then import again")
    if instance.task is not None:
        return Hindrance(f"its task {instance.task} is in progress", passes=True)
    if LOCKED in instance.extra and not drain.moves_locked:
        return Hindrance("is locked; unlock it, or drain with locked servers")
    if instance.status is Status.SHELVED:
        return OFFLOAD
    found = _METHODS.get(drain.mode, {}).get(instance.status)
    if found is None:
        return Hindrance(_REASONS.get(instance.status, f"is in status {instance.status}"))
    return found
