"""Sagas: the progress of requests whose instances go to several zones, and the leases on them.

A request over several zones spans several ledgers, so no transaction covers it. Instead, the zone
that received the request keeps a pending request and a `RemoteInstance` for each delegated
instance, from which any of its schedulers can resume the request after a crash.
"""

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
    """The progress of one request, kept in memory while a scheduler works on it.

    Attributes:
        request: the request.
        group: its server group, or None.
        unplaced: instances that have no place yet, by uuid.
        placed: the child zone's id for each placed instance by uuid, 0 for this zone.
        unsettled: uuids of instances that a child may or may not be building, because its answer
            was lost.
        zones_late: the number of children that missed the deadline of the latest select.
        sent_ms: the latest time at which an instance was sent, in Unix milliseconds.
    """

    request: Request
    group: ServerGroup | None
    unplaced: dict[str, Instance]
    placed: dict[str, int] = field(default_factory=dict[str, int])
    unsettled: set[str] = field(default_factory=set[str])
    zones_late: int = 0
    sent_ms: int = 0

    def next_ms(self, now_s: float) -> int:
        """Return the timestamp for the next message to a child, in Unix milliseconds.

        Timestamps increase strictly, even when the system clock is set back.
        """
        # A child refuses a build whose timestamp is not later than that of a recorded withdrawal.
        # It would thus refuse a valid retry with a repeated or earlier timestamp.
        self.sent_ms = max(int(now_s * 1000), self.sent_ms + 1)
        return self.sent_ms


class SagaStore:
    """Starts and resumes sagas, and leases them so that no other scheduler works on them.

    Args:
        ledger: stores pending requests and remote instances.
        clock: provides the time of day.
        telemetry: receives failures of lease renewals.
        scheduler: this process's name among the schedulers that share the ledger.
        lease_s: seconds after which another scheduler may take over from one that has died.
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
        """Record a request and its instances as pending and leased here, and return the saga.

        Raises:
            ConflictError: an instance's record has changed.
            QuotaExceededError: the request exceeds its project's quota.
            UnavailableError: the ledger cannot be reached.
        """
        # The request is recorded before any child is asked, because after a crash the record makes
        # another scheduler look for instances that children already have. The lease is part of
        # the same record, so no scheduler can take the request before it is leased.
        now_s = self._clock.now_s()
        pending = PendingRequest(order.request, now_s, self._scheduler, now_s + self._lease_s)
        limits = () if order.within is None else (order.within,)
        unit = (Put(pending), *(Put(one) for one in order.instances), *limits)
        (outcome,) = await self._ledger.commit([unit])
        check_excess(outcome)
        if isinstance(outcome, Rejected):
            raise ConflictError(
                outcome.conflict
                or f"cannot place request {order.request.request_id}: "
                "an instance has changed; try again"
            )
        # The ledger has incremented each record's revision; later writes are checked against it.
        stored = (replace(one, revision=one.revision + 1) for one in order.instances)
        return Saga(order.request, group, {one.uuid: one for one in stored})

    async def take(self, pending: PendingRequest) -> PendingRequest:
        """Lease a pending request to this scheduler and return its record.

        Raises:
            ConflictError: another scheduler's lease has not expired, another scheduler took the
                request first, or the request has ended.
            UnavailableError: the ledger cannot be reached.
        """
        now_s = self._clock.now_s()
        if pending.taken_by not in {"", self._scheduler} and pending.taken_until_s > now_s:
            raise ConflictError(
                f"request {pending.request.request_id} is leased to another scheduler"
            )
        return await self.renew(pending.request.request_id)

    async def give_up(self, request_id: str) -> None:
        """Record that a request has failed and its placed instances are to be withdrawn.

        A scheduler that resumes the request afterwards only withdraws instances.

        Raises:
            ConflictError: the request has ended, or its record kept changing; another scheduler may
                have taken it.
            UnavailableError: the ledger cannot be reached.
        """
        # The failure is recorded before the first withdrawal. Without the record, a scheduler that
        # resumes after a crash would place the withdrawn instances again, and their owner could
        # get a part of a request that is all or nothing.
        for _ in range(_TRIES - 1):
            try:
                await self.renew(request_id, is_given_up=True)
            except ConflictError:
                continue  # this scheduler's own lease renewal came in between
            return
        await self.renew(request_id, is_given_up=True)

    async def renew(self, request_id: str, *, is_given_up: bool = False) -> PendingRequest:
        """Extend this scheduler's lease on a pending request and return the record.

        Raises:
            ConflictError: the request has ended, or its record was written in the meantime.
            UnavailableError: the ledger cannot be reached.
        """
        # The version is read before the record, so a write between the two reads fails the guard.
        # In the other order it would be overwritten.
        seen = await self._ledger.version()
        pending = await self._ledger.get(PendingRequest, request_id)
        if pending is None:
            raise ConflictError(f"request {request_id} is no longer pending")
        until_s = self._clock.now_s() + self._lease_s
        renewed = replace(
            pending,
            taken_by=self._scheduler,
            taken_until_s=until_s,
            is_given_up=pending.is_given_up or is_given_up,
        )
        (outcome,) = await self._ledger.commit(
            [(Guard(saga_guard(request_id), seen), Put(renewed))]
        )
        if isinstance(outcome, Rejected):
            raise ConflictError(
                f"request {request_id} has changed; another scheduler may have taken it"
            )
        return renewed

    async def resume(
        self, request: Request, group: ServerGroup | None, instances: Iterable[Instance]
    ) -> Saga:
        """Return the progress of a request, rebuilt from its instances and remote instances.

        Args:
            request: the request.
            group: its server group, or None.
            instances: its instances that still have to be placed.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        saga = Saga(request, group, {one.uuid: one for one in instances})
        for uuid in request.instance_uuids:
            remote = await self._ledger.get(RemoteInstance, uuid)
            if remote is not None and remote.stage is RemoteInstanceStage.THERE:
                saga.placed[uuid] = remote.zone_id
                saga.unplaced.pop(uuid, None)
            elif remote is not None:
                # The record is written before the child is asked, so the child may have the
                # instance or may never have received the order.
                saga.unsettled.add(uuid)
            elif uuid not in saga.unplaced:
                stored = await self._ledger.get(Instance, uuid)
                if stored is not None and stored.host is not None:
                    saga.placed[uuid] = 0
        return saga

    async def keep_lease(self, request_id: str) -> None:
        """Renew the lease on a request until the caller cancels this task."""
        # The pause is a third of the lease, so two renewals in a row may fail before it expires.
        while True:
            await self._clock.sleep(self._lease_s / 3)
            try:
                await self.renew(request_id)
            except BerthError as error:
                self._telemetry.failure("zone_lease_failed", error, request_id=request_id)


def saga_guard(request_id: str) -> str:
    """Return the name of the guard on a request's lease."""
    # Schedulers of different versions share a ledger, so the name must not change.
    return f"journey {request_id}"
