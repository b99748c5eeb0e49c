"""Saving records, with the ledger's refusals turned into errors."""

from collections.abc import Awaitable, Callable

from berth.domain.errors import ConflictError
from berth.domain.ledger.write import Committed, Guard, Rejected, Unit, Write
from berth.ports.ledger import Ledger, Writer

AGGREGATES_GUARD = "aggregates"
"""Guards all aggregates together: names and availability zones are compared among them."""

_GUARDED_TRIES = 20


def service_guard(host: str) -> str:
    """Return the guard of a compute service: operators and its own agent change its record."""
    return f"service {host}"


def group_guard(uuid: str) -> str:
    """Return the guard of a server group with a hard policy: where its members are."""
    return f"server group {uuid}"


async def save(ledger: Writer, *writes: Write) -> int:
    """Commit writes as one unit and return its version.

    Raises:
        ConflictError: a record was not as expected; nothing was written.
        UnavailableError: the ledger cannot be reached.
    """
    (outcome,) = await ledger.commit([writes])
    if isinstance(outcome, Rejected):
        raise ConflictError(outcome.conflict or f"no room: {outcome.shortages}")
    return outcome.version


async def save_guarded(ledger: Ledger, guard: str, read: Callable[[], Awaitable[Unit]]) -> int:
    """Read, decide and save so that nobody else's change under the same guard is overwritten.

    Args:
        ledger: where to.
        guard: names what is read and changed; all who change it must name the same.
        read: reads the ledger and returns the unit to commit; called anew whenever somebody else
            was faster.

    Returns:
        The version of the unit.

    Raises:
        ConflictError: a record was not as expected, or others were faster twenty times.
        UnavailableError: the ledger cannot be reached.
        BerthError: whatever `read` raises.
    """
    for _ in range(_GUARDED_TRIES):
        seen = await ledger.version()
        (outcome,) = await ledger.commit([(Guard(guard, seen), *await read())])
        if isinstance(outcome, Committed):
            return outcome.version
        if not outcome.stale:
            raise ConflictError(outcome.conflict or f"no room: {outcome.shortages}")
    raise ConflictError(f"{guard} keeps changing; try again")
