"""Counts of failed builds on a host: consecutive failures, and failures by cause and tenant.

The counts are in the record of the host's compute service (nova-behaviour.md 5.2), and the change
feed delivers them to every scheduler. Only the gateway that serves the host's agent writes them,
and it remembers the record as it last read or wrote it. A build that succeeds therefore writes
nothing when no build had failed.

The failures by cause and tenant decay with time. The gateway writes the decayed level when it has
fallen by 1/8, so schedulers read a column that only the ledger changes.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from berth.domain.compute.build_failure import (
    HALF_LIFE_S,
    FailureCause,
    failure_level,
    with_failure,
    without_forgotten,
)
from berth.domain.compute.host import Service
from berth.domain.errors import ConflictError, UnavailableError
from berth.domain.ledger.write import Put, Unit
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.services.providers.guarded_saves import save_guarded, service_guard

# The level is written again when it has fallen to this fraction of the last written one. Each write
# reaches every scheduler, so a slow decay must not cause a write for each report of the agent.
_STEP: Final = 7 / 8


class FailedBuilds:
    """Counts the failed builds of one host.

    A count only guides the choice of hosts. It is therefore saved after the outcome of the build,
    and lost when it cannot be saved.

    Args:
        ledger: stores the service record.
        clock: provides the times of failures.
        half_life_s: seconds in which counts by cause and tenant fall to half.
        known: the record as the caller knows it, which saves the first read of the ledger.
    """

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        half_life_s: float = HALF_LIFE_S,
        known: Service | None = None,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._half_life_s = half_life_s
        self._saving = asyncio.Lock()
        # The record as this process last knew, read or wrote it. It is None before the first read,
        # if there is no record, and after a commit whose outcome is unknown. Operators may have
        # changed other fields since.
        self._known = known

    async def note_failure(self, host: str, project_id: str, cause: FailureCause) -> None:
        """Count a build that failed on the host."""

        def counted(service: Service) -> Service:
            now_s, half_life_s = self._clock.now_s(), self._half_life_s
            counts = with_failure(
                service.build_failures, project_id, cause, now_s=now_s, half_life_s=half_life_s
            )
            # Nova's number of consecutive failures includes only failures for which the host is to
            # blame.
            blamed = cause.blames_host
            return replace(
                service,
                failed_builds=service.failed_builds + blamed,
                failed_at_s=now_s if blamed else service.failed_at_s,
                build_failures=counts,
                failure_level=failure_level(counts, now_s, half_life_s),
            )

        await self._change(host, counted)

    async def note_success(self, host: str) -> None:
        """Reset the counts after a successful build on the host."""

        def reset(service: Service) -> Service:
            if not _has_failures(service):
                return service
            return replace(
                service, failed_builds=0, failed_at_s=0.0, build_failures=(), failure_level=0.0
            )

        if self._known is None or _has_failures(self._known):
            await self._change(host, reset)

    async def fade(self, host: str) -> None:
        """Save the decayed counts by cause and tenant, if one expired or the level fell by 1/8.

        Nova's number of consecutive failures does not decay; a successful build resets it.
        """
        if self._known is None or self._fades(self._known):
            await self._change(host, self._faded)

    def _faded(self, service: Service) -> Service:
        if not self._fades(service):
            return service
        now_s, half_life_s = self._clock.now_s(), self._half_life_s
        counts = without_forgotten(service.build_failures, now_s, half_life_s)
        level = failure_level(counts, now_s, half_life_s)
        return replace(service, build_failures=counts, failure_level=level)

    def _fades(self, service: Service) -> bool:
        """Return whether a count has expired or the level has fallen enough to be written."""
        now_s, counts = self._clock.now_s(), service.build_failures
        left = without_forgotten(counts, now_s, self._half_life_s)
        level = failure_level(left, now_s, self._half_life_s)
        return len(left) < len(counts) or level <= _STEP * service.failure_level != 0.0

    async def _change(self, host: str, change: Callable[[Service], Service]) -> None:
        """Save a change of the record; one that alters nothing is not written."""
        # Two builds that end simultaneously must not read the same counts.
        async with self._saving:
            try:
                before = await self._ledger.get(Service, host)
                self._known = before
                if before is None or change(before) == before:
                    return
                await save_guarded(self._ledger, service_guard(host), self._reader(host, change))
            # A count is only a hint, so failing to save it must not fail the outcome of the build.
            except (ConflictError, UnavailableError):
                self._known = None

    def _reader(
        self, host: str, change: Callable[[Service], Service]
    ) -> Callable[[], Awaitable[Unit]]:
        async def read() -> Unit:
            service = await self._ledger.get(Service, host)
            self._known = None if service is None else change(service)
            return () if self._known is None else (Put(self._known),)

        return read


def _has_failures(service: Service) -> bool:
    return bool(service.failed_builds or service.build_failures)
