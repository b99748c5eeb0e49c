"""Background withdrawal of instances that children may have and no owner wants.

A request can end while a child's answer is missing. Its remote instances then stay in the ledger
as withdrawing, and a withdrawal is sent to the child until it answers. A periodic scan finds
instances that were not marked; see `UnwantedInstanceFinder`.
"""

import asyncio
from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter

from berth.domain.errors import BerthError
from berth.domain.zones.zone import RemoteInstance, RemoteInstanceStage
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.ports.measures import ZONE_INSTANCES_UNWANTED
from berth.ports.telemetry import Reading, Telemetry
from berth.services.zoning.delegation.delegation import Delegator
from berth.services.zoning.delegation.unwanted_instances import UnwantedInstanceFinder

# The pause between retries, in seconds, grows from the first value to the second: a child that
# restarts is back within seconds, and any other one much later. No owner waits for a withdrawal.
_PAUSE_S = 5.0
_PAUSE_MAX_S = 60.0
# Seconds between two scans. A scan reads all remote instances and finds something only after a
# fault, so it runs rarely.
_SCAN_S = 300.0

_PROJECT_OF = attrgetter("project_id")


class WithdrawalWorker:
    """Withdraws instances from children until the children confirm.

    Several schedulers may withdraw the same instance: the order is idempotent.

    Args:
        ledger: stores the remote instances.
        delegator: sends the withdrawals to the children.
        clock: measures the pauses.
        telemetry: receives failures, and events about found and withdrawn instances.
    """

    def __init__(
        self, *, ledger: Ledger, delegator: Delegator, clock: Clock, telemetry: Telemetry
    ) -> None:
        self._ledger = ledger
        self._delegator = delegator
        self._clock = clock
        self._telemetry = telemetry
        self._leftovers = UnwantedInstanceFinder(ledger)
        self._left: set[str] = set()
        self._came = asyncio.Event()

    def note(self, instance_uuids: Iterable[str]) -> None:
        """Queue instances whose records were just marked as withdrawing."""
        self._left.update(instance_uuids)
        if self._left:
            self._came.set()

    def read(self) -> list[Reading]:
        """Return the gauge of queued instances, which are still to be withdrawn."""
        return [Reading(ZONE_INSTANCES_UNWANTED, len(self._left))]

    async def run(self) -> None:
        """Withdraw queued instances; this never returns.

        The first scan queues the instances that earlier processes left.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._scan_periodically())
            while True:
                await self._came.wait()
                self._came.clear()
                await self._ask_until_done()

    async def _scan_periodically(self) -> None:
        while True:
            try:
                await self._scan()
                pause_s = _SCAN_S
            except BerthError as error:
                self._telemetry.failure("zone_withdrawal_failed", error)
                pause_s = _PAUSE_S
            await self._clock.sleep(pause_s)

    async def _scan(self) -> None:
        found = await self._leftovers.find()
        if found.left_behind:
            self._telemetry.event("zone_unwanted_instances_found", instances=len(found.left_behind))
        self.note(found.left_behind | found.known)

    async def _ask_until_done(self) -> None:
        pause_s = _PAUSE_S
        while self._left:
            before = len(self._left)
            try:
                await self._ask()
            except BerthError as error:
                self._telemetry.failure("zone_withdrawal_failed", error)
            if self._left:
                pause_s = _PAUSE_S if len(self._left) < before else min(pause_s * 2, _PAUSE_MAX_S)
                await self._rest(pause_s)

    async def _rest(self, pause_s: float) -> None:
        """Wait until the next attempt is due, or until another instance is queued."""
        # The wait is cut into steps, so that a new instance does not wait for another child's
        # backoff.
        until_s = self._clock.now_s() + pause_s
        while self._clock.now_s() < until_s and not self._came.is_set():
            await self._clock.sleep(_PAUSE_S)
        self._came.clear()

    async def _ask(self) -> None:
        """Ask each child once about each project's instances."""
        found: list[RemoteInstance] = []
        for uuid in sorted(self._left):
            remote = await self._ledger.get(RemoteInstance, uuid)
            if remote is None or remote.stage is not RemoteInstanceStage.WITHDRAWING:
                self._left.discard(uuid)
            else:
                found.append(remote)
        # A release is signed for one project, and the child treats instances of other projects as
        # absent.
        for _, some in groupby(sorted(found, key=_PROJECT_OF), key=_PROJECT_OF):
            settled = await self._delegator.settle(list(some), keeps_built=False)
            done = settled.present | settled.absent
            self._left -= done
            if done:
                self._telemetry.event("zone_instances_withdrawn", instances=len(done))
