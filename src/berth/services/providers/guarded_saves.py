"""Saves records under guards, and raises rejections as errors."""

from collections.abc import Awaitable, Callable

from berth.domain.errors import ConflictError
from berth.domain.ledger.write import Committed, Guard, Rejected, Unit, Write
from berth.ports.ledger import Ledger, Writer

# The name of the guard on all aggregates. They share one guard because their names and availability
# zones are compared with each other.
AGGREGATES_GUARD = "aggregates"

# Each lost race means that another change succeeded, so twenty tries suffice in practice.
_GUARDED_TRIES = 20


def service_guard(host: str) -> str:
    """Return the name of the guard on a compute service, which operators and gateways change."""
    return f"service {host}"


def group_guard(uuid: str) -> str:
    """Return the name of the guard on the hosts of a server group's members."""
    return f"server group {uuid}"


def rejection_text(rejected: Rejected) -> str:
    """Return the reason for a rejection as text: the conflict, or else the shortages."""
    short = "; ".join(
        f"{one.asked} {one.resource_class} requested of provider {one.provider_uuid}, "
        f"{one.left} left ({one.rule})"
        for one in rejected.shortages
    )
    return rejected.conflict or f"insufficient capacity: {short}"


async def save(ledger: Writer, *writes: Write) -> int:
    """Commit writes as one unit, and return its version.

    Raises:
        ConflictError: a record was not as expected, or capacity is insufficient. Nothing was
            written.
        UnavailableError: the ledger cannot be reached.
    """
    (outcome,) = await ledger.commit([writes])
    if isinstance(outcome, Rejected):
        raise ConflictError(rejection_text(outcome))
    return outcome.version


async def save_guarded(ledger: Ledger, guard: str, read: Callable[[], Awaitable[Unit]]) -> int:
    """Read, decide and save, so that no concurrent change under the same guard is overwritten.

    Args:
        ledger: receives the unit.
        guard: the guard's name; all writers of what is read and changed must use the same one.
        read: reads the ledger and returns the unit to commit. It is called again after each lost
            race.

    Returns:
        The version of the unit.

    Raises:
        ConflictError: a record was not as expected, capacity is insufficient, or 20 attempts lost a
            race.
        UnavailableError: the ledger cannot be reached.
        BerthError: `read` raised it.
    """
    for _ in range(_GUARDED_TRIES):
        # The version precedes `read`, so that a change during the read makes the guard stale.
        seen = await ledger.version()
        (outcome,) = await ledger.commit([(Guard(guard, seen), *await read())])
        if isinstance(outcome, Committed):
            return outcome.version
        if not outcome.stale:
            raise ConflictError(rejection_text(outcome))
    raise ConflictError(f"too many concurrent changes ({guard}); try again")
