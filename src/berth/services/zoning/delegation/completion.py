"""Completion of sagas: all instances of a request are placed, or all of them are withdrawn."""

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
from berth.services.servers.instances import Instances
from berth.services.servers.moves import NO_VALID_HOST
from berth.services.zoning.delegation.delegation import Delegator
from berth.services.zoning.delegation.sagas import Saga


class SagaCompletion:
    """Completes sagas and records the decision about their request.

    Args:
        ledger: stores instances, remote instances and pending requests.
        delegator: withdraws instances from children.
        instances: deletes instances that were placed on this zone's own hosts.
        clock: provides the time of day.
        on_withdrawing: receives the uuids of instances that are to be withdrawn later.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        delegator: Delegator,
        instances: Instances,
        clock: Clock,
        on_withdrawing: Callable[[Iterable[str]], None] | None = None,
    ) -> None:
        self._ledger = ledger
        self._delegator = delegator
        self._instances = instances
        self._clock = clock
        self._on_withdrawing = on_withdrawing

    async def finish(self, saga: Saga) -> Decision:
        """Remove the local records of delegated instances, record the decision, and return it.

        An instance that its owner has deleted in the meantime is withdrawn, now or later.

        Raises:
            ConflictError: a record has changed; complete the saga again.
            UnavailableError: the ledger cannot be reached.
        """
        forgotten: list[Write] = []
        deleted: list[str] = []
        for uuid in [uuid for uuid, zone_id in saga.placed.items() if zone_id]:
            stored = await self._ledger.get(Instance, uuid)
            if stored is not None and stored.status is not Status.DELETED:
                # `Remove` alone accepts any revision. The `Put` before it fails if the owner has
                # deleted the instance since it was read, so a delete is never lost.
                forgotten += [Put(stored), Remove(Kind.INSTANCE, uuid)]
            elif stored is not None:
                deleted.append(uuid)
        await self.settle(saga, deleted, keeps_built=False)
        counts = Counter(map(self._delegator.name_of, saga.placed.values()))
        zones = tuple(ZoneCount(*pair) for pair in counts.most_common())
        decision = replace(self._decision(saga, Verdict.PLACED), zones=zones)
        return await self._end(saga, decision, forgotten)

    async def give_up(self, saga: Saga) -> Decision:
        """Withdraw all placed instances, set the request's instances to ERROR, and record why.

        An instance whose child does not answer keeps its remote-instance record and is withdrawn
        later.

        Returns:
            The recorded decision, whose verdict is REFUSED.

        Raises:
            ConflictError: a record has changed; complete the saga again.
            UnavailableError: the ledger cannot be reached.
        """
        below = {uuid for uuid, zone_id in saga.placed.items() if zone_id}
        here = saga.placed.keys() - below
        await self.settle(saga, below | saga.unsettled, keeps_built=False)
        await asyncio.gather(*map(self._undo, here))
        asked = len(saga.request.instance_uuids)
        refusal = Refusal(
            code=RefusalCode.NOT_ENOUGH,
            message=_failure(saga),
            placed=0,
            asked=asked,
            hosts_total=0,
            # The message reveals nothing about hosts, so it is also the summary.
            summary=_failure(saga),
        )
        decision = replace(self._decision(saga, Verdict.REFUSED), refusal=refusal)
        fault = Fault(
            NO_VALID_HOST, refusal.message, decision.decided_at_s, details=_failure_details(saga)
        )
        failed: list[Write] = []
        for uuid in saga.request.instance_uuids:
            stored = await self._ledger.get(Instance, uuid)
            if stored is not None and stored.task is Task.SCHEDULING:
                failed.append(Put(_failed(stored, fault, decision)))
        return await self._end(saga, decision, failed)

    async def _undo(self, uuid: str) -> None:
        try:
            await self._instances.delete(uuid)
        except NotFoundError:
            return

    async def _end(self, saga: Saga, decision: Decision, writes: Iterable[Write]) -> Decision:
        # One transaction ends the request and marks the remote instances that are still open.
        # After a crash between two writes, a child could keep instances that no record tells
        # this zone to withdraw.
        gone = Remove(Kind.PENDING_REQUEST, saga.request.request_id)
        remotes = [await self._ledger.get(RemoteInstance, uuid) for uuid in sorted(saga.unsettled)]
        later = (
            Put(replace(one, stage=RemoteInstanceStage.WITHDRAWING))
            for one in remotes
            if one is not None
        )
        (outcome,) = await self._ledger.commit([(*writes, *later, Put(decision), gone)])
        if isinstance(outcome, Committed):
            if self._on_withdrawing is not None:
                self._on_withdrawing(saga.unsettled)
            return decision
        raise ConflictError(
            outcome.conflict
            or f"cannot end request {decision.request_id}: a record has changed; try again"
        )

    def _decision(self, saga: Saga, verdict: Verdict) -> Decision:
        request = saga.request
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

    async def settle(self, saga: Saga, uuids: Iterable[str], *, keeps_built: bool) -> None:
        """Ask children whether they have instances that were sent, and update the saga.

        Instances whose child does not answer stay unsettled. See `Delegator.settle`.

        Args:
            saga: the saga, changed in place.
            uuids: the instances to ask about.
            keeps_built: whether instances that a child has built stay there; otherwise the child
                deletes them.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        remotes: list[RemoteInstance] = []
        for uuid in sorted(uuids):
            remote = await self._ledger.get(RemoteInstance, uuid)
            saga.placed.pop(uuid, None)
            if remote is None:
                # The child has refused the instance, or an earlier settle has removed its record.
                saga.unsettled.discard(uuid)
            else:
                saga.unsettled.add(uuid)
                saga.sent_ms = max(saga.sent_ms, remote.sent_ms)
                remotes.append(remote)
        settled = await self._delegator.settle(remotes, keeps_built=keeps_built)
        zones = {one.instance_uuid: one.zone_id for one in remotes}
        for uuid in settled.present:
            saga.placed[uuid] = zones[uuid]
            saga.unplaced.pop(uuid, None)
        saga.unsettled -= settled.present | settled.absent


def _failed(instance: Instance, fault: Fault, decision: Decision) -> Instance:
    return replace(
        instance,
        status=Status.ERROR,
        task=None,
        fault=fault,
        decision_id=decision.request_id,
        updated_at_s=decision.decided_at_s,
    )


def _failure(saga: Saga) -> str:
    """Return the message for the owner, who must not learn which instances were in which zone."""
    if saga.unsettled:
        return (
            "A part of the cloud did not answer, so the request failed, and no instance is kept. "
            "Try again."
        )
    asked = len(saga.request.instance_uuids)
    return (
        f"There was no room for {len(saga.unplaced)} of the {asked} instances, so none was created."
        " Request fewer or smaller instances, or try again."
    )


def _failure_details(saga: Saga) -> str:
    """Return the details that only operators read; an empty string if there are none."""
    if not saga.unsettled:
        return ""
    asked = len(saga.request.instance_uuids)
    return (
        f"A child zone did not answer for {len(saga.unsettled)} of the {asked} instances. The child"
        " deletes the instances that it has once it answers."
    )
