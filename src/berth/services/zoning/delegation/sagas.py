"""Journeys: how far a request has come whose instances go to several zones, and who does it."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from berth.domain.compute.instance import Instance
from berth.domain.compute.request import Request
from berth.domain.compute.server_group import ServerGroup
from berth.domain.errors import BerthError, ConflictError
from berth.domain.ledger.record import PendingRequest
from berth.domain.ledger.write import Guard, Put, Rejected
from berth.domain.zones.zone import RemoteInstance, RemoteInstanceStage
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.ports.telemetry import Telemetry
from berth.services.requests.orders import PlaceOrder
from berth.services.requests.quotas import check_excess

_TRIES = 3


@dataclass(slots=True)
class Saga:
    """How far a request is: the instances that wait for a place, and those that have one.

    `there` has the child of each instance that is placed, 0 for this zone; `lost` are those of
    which nobody knows whether a child has them. `sent_ms` is the latest time that any was sent at:
    what is sent anew is newer, though the clock may have been set back.
    """

    request: Request
    group: ServerGroup | None
    unplaced: dict[str, Instance]
    placed: dict[str, int] = field(default_factory=dict[str, int])
    unsettled: set[str] = field(default_factory=set[str])
    zones_late: int = 0
    sent_ms: int = 0

    def next_ms(self, now_s: float) -> int:
        """Return the time to send at, in milliseconds of Unix time."""
        self.sent_ms = max(int(now_s * 1000), self.sent_ms + 1)
        return self.sent_ms


class SagaStore:
    """Begins journeys, and keeps other schedulers from them while one does them.

    Args:
        ledger: has what is pending, and errands.
        clock: tells the time.
        telemetry: is told of failures.
        scheduler: names this process among those that share the ledger.
        lease_s: how long a scheduler that dies keeps its requests from others.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        clock: Clock,
        telemetry: Telemetry,
        scheduler: str,
        lease_s: float,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._telemetry = telemetry
        self._scheduler = scheduler
        self._lease_s = lease_s

    async def begin(self, order: PlaceOrder, group: ServerGroup | None) -> Saga:
        """Write a request down as pending, with its instances, and taken by this scheduler.

        Raises:
            ConflictError: the instances have changed meanwhile.
            QuotaExceededError: the project would have more than it may.
            UnavailableError: the ledger cannot be reached.
        """
        now_s = self._clock.now_s()
        pending = PendingRequest(order.request, now_s, self._scheduler, now_s + self._lease_s)
        limits = () if order.within is None else (order.within,)
        unit = (Put(pending), *(Put(one) for one in order.instances), *limits)
        (outcome,) = await self._ledger.commit([unit])
        check_excess(outcome)
        if isinstance(outcome, Rejected):
            raise ConflictError(outcome.conflict or "the instances have changed meanwhile")
        stored = (replace(one, revision=one.revision + 1) for one in order.instances)
        return Saga(order.request, group, {one.uuid: one for one in stored})

    async def take(self, pending: PendingRequest) -> PendingRequest:
        """Take a pending request for this scheduler, unless another one has it."""
        now_s = self._clock.now_s()
        if pending.taken_by not in {"", self._scheduler} and pending.taken_until_s > now_s:
            raise ConflictError(
                f"request {pending.request.request_id} is in the hands of another scheduler"
            )
        return await self.renew(pending.request.request_id)

    async def give_up(self, request_id: str) -> None:
        """Write down that what was placed of a request is taken back, before any of it is.

        Whoever goes on with it after a crash takes back the rest, and places nothing.

        Raises:
            ConflictError: it is not pending any more, or another scheduler has it.
            UnavailableError: the ledger cannot be reached.
        """
        for _ in range(_TRIES - 1):
            try:
                await self.renew(request_id, is_given_up=True)
            except ConflictError:
                continue  # by this scheduler itself, as its lease was due
            return
        await self.renew(request_id, is_given_up=True)

    async def renew(self, request_id: str, *, is_given_up: bool = False) -> PendingRequest:
        """Put this scheduler's name on a pending request for some more time.

        Raises:
            ConflictError: it is not pending any more, or another scheduler was faster.
        """
        seen = await self._ledger.version()
        pending = await self._ledger.get(PendingRequest, request_id)
        if pending is None:
            raise ConflictError(f"request {request_id} is not pending any more")
        until_s = self._clock.now_s() + self._lease_s
        mine = replace(
            pending,
            taken_by=self._scheduler,
            taken_until_s=until_s,
            is_given_up=pending.is_given_up or is_given_up,
        )
        (outcome,) = await self._ledger.commit([(Guard(saga_guard(request_id), seen), Put(mine))])
        if isinstance(outcome, Rejected):
            raise ConflictError(f"request {request_id} was taken by another scheduler")
        return mine

    async def resume(
        self, request: Request, group: ServerGroup | None, instances: Iterable[Instance]
    ) -> Saga:
        """Find out how far a request is: by its instances here, and its errands."""
        saga = Saga(request, group, {one.uuid: one for one in instances})
        for uuid in request.instance_uuids:
            remote = await self._ledger.get(RemoteInstance, uuid)
            if remote is not None and remote.stage is RemoteInstanceStage.THERE:
                saga.placed[uuid] = remote.zone_id
                saga.unplaced.pop(uuid, None)
            elif remote is not None:
                saga.unsettled.add(uuid)
            elif uuid not in saga.unplaced:
                stored = await self._ledger.get(Instance, uuid)
                if stored is not None and stored.host is not None:
                    saga.placed[uuid] = 0
        return saga

    async def keep_lease(self, request_id: str) -> None:
        """Renew the lease until cancelled."""
        while True:
            await self._clock.sleep(self._lease_s / 3)
            try:
                await self.renew(request_id)
            except BerthError as error:
                self._telemetry.failure("zone_lease_failed", error, request_id=request_id)


def saga_guard(request_id: str) -> str:
    """Return the guard of a request that a scheduler may have in its hands."""
    return f"journey {request_id}"
