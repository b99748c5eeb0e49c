"""Taking back: instances that children may have, and that nobody wants any more.

A request ends although a child has not said what came of some of its instances. Their errands are
kept as withdrawing, and the child is asked until it answers: then it has none of them. What was
left in another way is looked for now and then; see `UnwantedInstanceFinder`.
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

_PAUSE_S = 5.0
_PAUSE_MAX_S = 60.0
_LOOK_S = 300.0
"""How often what was left is looked for."""

_PROJECT_OF = attrgetter("project_id")


class WithdrawalWorker:
    """Takes back what was sent in vain.

    Several schedulers may ask for the same: a child that has answered answers the same again.

    Args:
        ledger: has the errands.
        sending: asks the children.
        clock: tells the time.
        telemetry: is told when the ledger is away, and of what was taken back.
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
        """Take back instances whose errands are withdrawing now."""
        self._left.update(instance_uuids)
        if self._left:
            self._came.set()

    def read(self) -> list[Reading]:
        """Take the reading for monitoring."""
        return [Reading(ZONE_INSTANCES_UNWANTED, len(self._left))]

    async def run(self) -> None:
        """Ask until nothing is left, for ever; with what was left before this process began."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look_again())
            while True:
                await self._came.wait()
                self._came.clear()
                await self._ask_until_done()

    async def _look_again(self) -> None:
        while True:
            try:
                await self._look()
                pause_s = _LOOK_S
            except BerthError as error:
                self._telemetry.failure("zone_taking_back_failed", error)
                pause_s = _PAUSE_S
            await self._clock.sleep(pause_s)

    async def _look(self) -> None:
        found = await self._leftovers.find()
        if found.left_behind:
            self._telemetry.event("zone_instances_left_behind", instances=len(found.left_behind))
        self.note(found.left_behind | found.known)

    async def _ask_until_done(self) -> None:
        pause_s = _PAUSE_S
        while self._left:
            before = len(self._left)
            try:
                await self._ask()
            except BerthError as error:
                self._telemetry.failure("zone_taking_back_failed", error)
            if self._left:
                pause_s = _PAUSE_S if len(self._left) < before else min(pause_s * 2, _PAUSE_MAX_S)
                await self._rest(pause_s)

    async def _rest(self, pause_s: float) -> None:
        """Wait until it is time to ask again; what comes meanwhile does not wait for the rest."""
        until_s = self._clock.now_s() + pause_s
        while self._clock.now_s() < until_s and not self._came.is_set():
            await self._clock.sleep(_PAUSE_S)
        self._came.clear()

    async def _ask(self) -> None:
        """Ask each child once; a release is for one tenant."""
        found: list[RemoteInstance] = []
        for uuid in sorted(self._left):
            remote = await self._ledger.get(RemoteInstance, uuid)
            if remote is None or remote.stage is not RemoteInstanceStage.WITHDRAWING:
                self._left.discard(uuid)
            else:
                found.append(remote)
        for _, some in groupby(sorted(found, key=_PROJECT_OF), key=_PROJECT_OF):
            settled = await self._delegator.settle(list(some), keeps_built=False)
            done = settled.present | settled.absent
            self._left -= done
            if done:
                self._telemetry.event("zone_instances_taken_back", instances=len(done))
