"""Ends of journeys: a request whose instances are all somewhere, or are all taken back."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from berth.domain.compute.decision import (
    ZONE_AWARE_DRIVER,
    Decision,
    Refusal,
    RefusalCode,
    Verdict,
    ZoneCount,
)
from berth.domain.compute.instance import Fault, Instance, Status, Task
from berth.domain.errors import ConflictError, NotFoundError
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Committed, Put, Remove, Write
from berth.domain.zones.zone import RemoteInstance, RemoteInstanceStage
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.services.servers.moves import NO_VALID_HOST
from berth.services.zoning.delegation.delegation import Delegator
from berth.services.zoning.delegation.release import InstanceDeleter
from berth.services.zoning.delegation.sagas import Saga


class SagaCompletion:
    """Ends journeys.

    Args:
        ledger: has instances, errands and what is pending.
        sending: takes back what was passed on to children.
        instances: deletes what was placed here in vain.
        clock: tells the time.
        withdrawn: is told of instances that are to be taken back later.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        sending: Delegator,
        instances: InstanceDeleter,
        clock: Clock,
        withdrawn: Callable[[Iterable[str]], None] | None = None,
    ) -> None:
        self._ledger = ledger
        self._sending = sending
        self._instances = instances
        self._clock = clock
        self._withdrawn = withdrawn

    async def finish(self, journey: Saga) -> Decision:
        """Forget what stands here of instances that are in other zones, and record the decision.

        One that its owner has deleted meanwhile is taken back, now or later.

        Raises:
            ConflictError: something has changed just now; end it again.
            UnavailableError: the ledger cannot be reached.
        """
        forgotten: list[Write] = []
        deleted: list[str] = []
        for uuid in [uuid for uuid, zone_id in journey.there.items() if zone_id]:
            stored = await self._ledger.get(Instance, uuid)
            if stored is not None and stored.status is not Status.DELETED:
                # The first write sees to it that nobody has changed it since it was read.
                forgotten += [Put(stored), Remove(Kind.INSTANCE, uuid)]
            elif stored is not None:
                deleted.append(uuid)
        await self.settle(journey, deleted, keeps_built=False)
        counts = Counter(map(self._sending.name_of, journey.there.values()))
        zones = tuple(ZoneCount(*pair) for pair in counts.most_common())
        decision = replace(self._decision(journey, Verdict.PLACED), zones=zones)
        return await self._end(journey, decision, forgotten)

    async def give_up(self, journey: Saga) -> Decision:
        """Take back all that was placed, and put the instances in ERROR.

        What a child still does not answer for keeps its errand, and is taken back later.
        """
        below = {uuid for uuid, zone_id in journey.there.items() if zone_id}
        here = journey.there.keys() - below
        await self.settle(journey, below | journey.lost, keeps_built=False)
        await asyncio.gather(*map(self._undo, here))
        asked = len(journey.request.instance_uuids)
        refusal = Refusal(
            code=RefusalCode.NOT_ENOUGH,
            message=_failure(journey),
            placed=0,
            asked=asked,
            hosts_total=0,
        )
        decision = replace(self._decision(journey, Verdict.REFUSED), refusal=refusal)
        fault = Fault(NO_VALID_HOST, refusal.message, decision.decided_at_s)
        failed: list[Write] = []
        for uuid in journey.request.instance_uuids:
            stored = await self._ledger.get(Instance, uuid)
            if stored is not None and stored.task is Task.SCHEDULING:
                failed.append(Put(_failed(stored, fault, decision)))
        return await self._end(journey, decision, failed)

    async def _undo(self, uuid: str) -> None:
        try:
            await self._instances.delete(uuid)
        except NotFoundError:
            return

    async def _end(self, journey: Saga, decision: Decision, writes: Iterable[Write]) -> Decision:
        gone = Remove(Kind.PENDING_REQUEST, journey.request.request_id)
        errands = [await self._ledger.get(RemoteInstance, uuid) for uuid in sorted(journey.lost)]
        later = (
            Put(replace(one, stage=RemoteInstanceStage.WITHDRAWING))
            for one in errands
            if one is not None
        )
        (outcome,) = await self._ledger.commit([(*writes, *later, Put(decision), gone)])
        if isinstance(outcome, Committed):
            if self._withdrawn is not None:
                self._withdrawn(journey.lost)
            return decision
        raise ConflictError(outcome.conflict or f"request {decision.request_id} has changed")

    def _decision(self, journey: Saga, verdict: Verdict) -> Decision:
        request = journey.request
        return Decision(
            request_id=request.request_id,
            verdict=verdict,
            policy_name="",
            policy_hash="",
            driver=ZONE_AWARE_DRIVER,
            seed=0,
            table_version=0,
            decided_at_s=self._clock.now_s(),
            duration_us=0,
            project_id=request.project_id,
        )

    async def settle(self, journey: Saga, uuids: Iterable[str], *, keeps_built: bool) -> None:
        """Find out what came of instances that were sent; see `Delegator.settle`.

        Those that are there, or not, are noted in the journey; it goes on having lost the others.
        """
        errands: list[RemoteInstance] = []
        for uuid in sorted(uuids):
            errand = await self._ledger.get(RemoteInstance, uuid)
            journey.there.pop(uuid, None)
            if errand is None:
                journey.lost.discard(uuid)
            else:
                journey.lost.add(uuid)
                journey.sent_ms = max(journey.sent_ms, errand.sent_ms)
                errands.append(errand)
        settled = await self._sending.settle(errands, keeps_built=keeps_built)
        zones = {one.instance_uuid: one.zone_id for one in errands}
        for uuid in settled.there:
            journey.there[uuid] = zones[uuid]
            journey.waiting.pop(uuid, None)
        journey.lost -= settled.there | settled.back


def _failed(instance: Instance, fault: Fault, decision: Decision) -> Instance:
    return replace(
        instance,
        status=Status.ERROR,
        task=None,
        fault=fault,
        decision_id=decision.request_id,
        updated_at_s=decision.decided_at_s,
    )


def _failure(journey: Saga) -> str:
    asked = len(journey.request.instance_uuids)
    if journey.lost:
        return (
            f"A zone below did not say what came of {len(journey.lost)} of the {asked} instances."
            " None is kept: what it has is deleted once it answers."
        )
    return (
        f"{len(journey.waiting)} of the {asked} instances found no place in the tree of zones,"
        " so none was kept. Ask for fewer or smaller ones, or try again."
    )
