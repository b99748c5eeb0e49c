"""Saving records under guards, with rejections raised as errors."""

from collections.abc import Awaitable, Callable

from berth.domain.errors import ConflictError
from berth.domain.ledger.write import Committed, Guard, Rejected, Unit, Write
from berth.ports.ledger import Ledger, Writer

# One guard for all aggregates: names and availability zones are compared among all of them.
AGGREGATES_GUARD = "aggregates"

# Each lost race means that another change succeeded, so twenty tries suffice in practice.
_GUARDED_TRIES = 20


def service_guard(host: str) -> str:
    """Return the guard of a compute service, whose record operators and its agent change."""
    return f"service {host}"


def group_guard(uuid: str) -> str:
    """Return the guard of the members' places of a server group with a hard policy."""
    return f"server group {uuid}"


async def save(ledger: Writer, *writes: Write) -> int:
    """Commit writes as one unit, and return its version.

    Raises:
        ConflictError: a record was not as expected; nothing was written.
        UnavailableError: the ledger cannot be reached.
    """
    (outcome,) = await ledger.commit([writes])
    if isinstance(outcome, Rejected):
        raise ConflictError(outcome.conflict or f"insufficient capacity: {outcome.shortages}")
    return outcome.version


async def save_guarded(ledger: Ledger, guard: str, read: Callable[[], Awaitable[Unit]]) -> int:
    """Read, decide and save, so that no concurrent change under the same guard is overwritten.

    Args:
        ledger: where to save.
        guard: the name of what is read and changed; all writers of it must use the same name.
        read: reads the ledger and returns the unit to commit; called again after each lost race.

    Returns:
        The version of the unit.

    Raises:
        ConflictError: a record was not as expected, or 20 tries lost a race.
        UnavailableError: the ledger cannot be reached.
        BerthError: whatever `read` raises.
    """
    for _ in range(_GUARDED_TRIES):
        # Before `read`: a change after this version makes the guard stale, even during the read.
        seen = await ledger.version()
        (outcome,) = await ledger.commit([(Guard(guard, seen), *await read())])
        if isinstance(outcome, Committed):
            return outcome.version
        if not outcome.stale:
            raise ConflictError(outcome.conflict or f"insufficient capacity: {outcome.shortages}")
    raise ConflictError(f"{guard} keeps changing; try again")
