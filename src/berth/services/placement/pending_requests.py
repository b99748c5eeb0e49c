"""Pending requests: accepted and durable, but not decided yet. Schedulers place them."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace

from berth.domain.compute.decision import Decision
from berth.domain.compute.instance import Fault, Instance, Status, Task
from berth.domain.compute.request import Request
from berth.domain.errors import BerthError, ConflictError, InvalidInputError, NotFoundError
from berth.domain.ledger.record import Kind, PendingRequest
from berth.domain.ledger.write import Put, Remove, Unit, Write
from berth.ports.bus import CONTEXT, Context
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.ports.telemetry import Telemetry
from berth.services.decisions.contention import Backoff
from berth.services.providers.guarded_saves import save_guarded
from berth.services.replica.replica import Replica
from berth.services.requests.orders import PlaceOrder, Placer
from berth.services.servers.moves import AWAITING, end_task
from berth.services.zoning.delegation.sagas import saga_guard
from berth.services.zoning.delegation.unwanted_instances import withdrawals

# Seconds between tries of one request: an unreachable ledger must not be flooded, and a request
# must start soon after it is back.
_PAUSE_FIRST_S = 0.5
_PAUSE_MAX_S = 8.0
# Bounds the orders in progress: each holds capacity in the table until it is committed.
_AT_ONCE = 256
# A request that makes the scheduler fail with an unexpected error would do so for ever; after five
# times its instances go to ERROR.
_BREAKDOWNS_MAX = 5
_CANNOT_BE_READ = 400
_BROKEN = 500


class PendingRequests:
    """Places the pending requests of the ledger.

    Requests are pending after a restart, after a failed build, and when an API process without a
    scheduler accepted them. Several schedulers may start on the same request: the key of the claim
    lets one of them commit. They back off from each other, so that few decide in vain.

    Args:
        ledger: where the requests are.
        replica: lists the pending requests, as the change feed delivers them.
        placer: places an order.
        clock: the source of delays.
        telemetry: receives failures.
        name: the scheduler's unique name, which also marks the sagas of this process.
        backoff: the delays before a request is started, or None for new ones under `name`.
        withdrawn: called with the uuids of instances that child zones may have, when their request
            has ended.
    """

    def __init__(  # noqa: PLR0913 - what taking up needs, each used
        self,
        *,
        ledger: Ledger,
        replica: Replica,
        placer: Placer,
        clock: Clock,
        telemetry: Telemetry,
        name: str = "",
        backoff: Backoff | None = None,
        withdrawn: Callable[[Iterable[str]], None] | None = None,
    ) -> None:
        self._ledger = ledger
        self._replica = replica
        self._placer = placer
        self._clock = clock
        self._telemetry = telemetry
        self._withdrawn = withdrawn
        self._name = name
        self._backoff = Backoff(name) if backoff is None else backoff
        self._at_work: set[str] = set()
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def run(self) -> None:
        """Place every pending request, oldest first, for ever."""
        # An earlier run may have been cancelled before its last tasks began.
        self._at_work.clear()
        self._replica.pending_arrived.set()
        async with asyncio.TaskGroup() as group:
            while True:
                await self._replica.pending_arrived.wait()
                self._replica.pending_arrived.clear()
                for pending in self._waiting():
                    self._at_work.add(pending.request.request_id)
                    group.create_task(self._take_up(pending.request))

    def _waiting(self) -> list[PendingRequest]:
        waiting = [
            pending
            for key, pending in self._replica.pending.items()
            # An operation that only a newer Berth knows stays pending for a newer scheduler.
            if key not in self._at_work and pending.request.operation in AWAITING
        ]
        return sorted(waiting, key=lambda pending: pending.accepted_at_s)

    async def _take_up(self, request: Request) -> None:
        """Retry until the request is no longer pending, here or in the ledger."""
        request_id = request.request_id
        CONTEXT.set(Context(request_id))
        pause_s, breakdowns = _PAUSE_FIRST_S, 0
        try:
            while request_id in self._replica.pending:
                # Another scheduler may decide the request during the delay, so it is checked again
                # after it.
                delay_s = self._backoff.delay_s(request_id)
                if delay_s:
                    await self._clock.sleep(delay_s)
                    if request_id not in self._replica.pending:
                        break
                try:
                    async with self._slots:
                        await self._place(request, has_broken=breakdowns >= _BREAKDOWNS_MAX)
                except Exception as error:  # noqa: BLE001 - one bad request must not stop the rest
                    # The ledger is unreachable, or an instance has changed: it stays pending.
                    breakdowns += not isinstance(error, BerthError)
                    self._tell(request_id, error)
                    await self._clock.sleep(pause_s)
                    pause_s = min(pause_s * 2, _PAUSE_MAX_S)
                else:
                    # The change feed may deliver the end later than the ledger knows it.
                    self._replica.pending.pop(request_id, None)
        finally:
            self._at_work.discard(request_id)

    def _tell(self, request_id: str, error: Exception) -> None:
        """Report why a try failed. A lost race is no failure, as the request is tried again."""
        if isinstance(error, ConflictError | NotFoundError):
            self._telemetry.event(
                "pending_request_overtaken", request_id=request_id, reason=str(error)
            )
        else:
            self._telemetry.failure("pending_request_failed", error, request_id=request_id)

    async def _place(self, request: Request, *, has_broken: bool) -> None:
        # In this order: one unit commits the decision and the instances' new states, so instances
        # that are read after a missing decision and still wait have not been decided.
        decision = await self._ledger.get(Decision, request.request_id)
        instances = await self._instances(request)
        if not instances:
            if await self._ledger.get(PendingRequest, request.request_id) is None:
                self._backoff.note_rival()
            else:
                await self._end(request)
        elif has_broken:
            await self._give_up(request, instances, _BROKEN, "the scheduler failed on it")
        elif decision is not None:
            reason = f"request id {request.request_id} was used for another request before"
            await self._give_up(request, instances, _CANNOT_BE_READ, reason)
        else:
            wanted = replace(request, instance_uuids=tuple(one.uuid for one in instances))
            try:
                await self._placer.place(PlaceOrder(wanted, instances, accepted=True))
                self._backoff.note_own()
            except InvalidInputError as error:
                await self._give_up(request, instances, _CANNOT_BE_READ, str(error))

    async def _instances(self, request: Request) -> tuple[Instance, ...]:
        """Return the request's instances, without those that another task has claimed since."""
        found = [await self._ledger.get(Instance, uuid) for uuid in request.instance_uuids]
        return tuple(one for one in found if one is not None and _waits_for(request, one))

    async def _give_up(
        self, request: Request, instances: tuple[Instance, ...], code: int, reason: str
    ) -> None:
        now_s = self._clock.now_s()
        fault = Fault(code=code, message=reason, created_at_s=now_s)
        failed: list[Write] = []
        for one in instances:
            is_new = one.task is Task.SCHEDULING
            status = Status.ERROR if is_new else one.status
            failed += end_task(replace(one, fault=fault), now_s, message=reason, status=status)
        # The saga that this process began for the request has ended, so its lease does not count.
        await self._end(request, *failed, may_be_taken_by=self._name)

    async def _end(self, request: Request, *failed: Write, may_be_taken_by: str = "") -> None:
        """End a request without its instances, including those that were sent to child zones.

        Raises:
            ConflictError: a scheduler has leased the request and may send more, or it has ended.
            UnavailableError: the ledger cannot be reached.
        """
        key = request.request_id
        back: list[str] = []

        async def read() -> Unit:
            pending = await self._ledger.get(PendingRequest, key)
            if pending is None:
                raise ConflictError(f"request {key} is no longer pending")
            is_free = pending.taken_by in {"", may_be_taken_by}
            if not is_free and pending.taken_until_s > self._clock.now_s():
                raise ConflictError(f"request {key} is leased by a scheduler")
            withdrawing = await withdrawals(self._ledger, pending.request.instance_uuids)
            back[:] = [one.instance_uuid for one in withdrawing]
            return (*failed, *map(Put, withdrawing), Remove(Kind.PENDING_REQUEST, key))

        await save_guarded(self._ledger, saga_guard(key), read)
        if self._withdrawn is not None:
            # After the commit: a withdrawal must not begin for a request that is still pending.
            self._withdrawn(back)


def _waits_for(request: Request, instance: Instance) -> bool:
    """Return whether an instance waits for this very request to be decided.

    The task alone is not enough: the same action may have been requested twice, and be in progress.
    """
    if instance.task is not AWAITING[request.operation] or instance.migration_uuid is not None:
        return False
    action = instance.action
    return action is None or request.request_id.startswith(action.request_id)
