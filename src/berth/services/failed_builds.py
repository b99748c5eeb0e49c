"""Failed builds: how often in a row building has failed on a host, for schedulers to read.

The count stands in the record of the host's compute service (nova.md 5.2), so the change feed
brings it to every scheduler. Only the agent of the host counts, so it knows without reading
whether there is anything to be reset: a build that succeeds writes nothing when none failed.
"""

import asyncio
from dataclasses import replace

from berth.domain.errors import ConflictError, UnavailableError
from berth.domain.host import Service
from berth.domain.write import Put, Unit
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.services.saving import save_guarded, service_guard


class FailedBuilds:
    """Counts the failed builds of one host.

    A count is a hint for choosing hosts and no more. So it is saved after the outcome of the
    build, and one that cannot be saved is given up.
    """

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._saving = asyncio.Lock()
        self._count: int | None = None
        """As the ledger has it; None until that was read, or when it is in doubt."""

    async def note(self, host: str, *, has_failed: bool) -> None:
        """Count a build that failed on the host, or begin anew after one that succeeded."""
        if not has_failed and self._count == 0:
            return
        async with self._saving:
            try:
                await self._note(host, has_failed=has_failed)
            except (ConflictError, UnavailableError):
                self._count = None

    async def _note(self, host: str, *, has_failed: bool) -> None:
        if not has_failed and self._count is None:
            service = await self._ledger.get(Service, host)
            self._count = 0 if service is None else service.failed_builds
        if not has_failed and not self._count:
            return
        counts: list[int] = []

        async def read() -> Unit:
            service = await self._ledger.get(Service, host)
            if service is None:
                counts[:] = [0]
                return ()
            counts[:] = [service.failed_builds + 1 if has_failed else 0]
            failed_at_s = self._clock.now_s() if has_failed else 0.0
            return (Put(replace(service, failed_builds=counts[0], failed_at_s=failed_at_s)),)

        await save_guarded(self._ledger, service_guard(host), read)
        self._count = counts[0]
