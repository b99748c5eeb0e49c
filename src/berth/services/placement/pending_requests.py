"""Places pending requests, which the ledger has accepted and no scheduler has decided."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace

from berth.domain.compute.decision import Decision
from berth.domain.compute.instance import Fault, Instance, Status, Task
from berth.domain.compute.request import Request
from berth.domain.errors import (
    BerthError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    UncertainFleetError,
)
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

# The pause in seconds between two attempts for a request doubles from the first value to the
# second. An unreachable ledger must not be flooded, and a request must start soon after the ledger
# is reachable again.
_PAUSE_FIRST_S = 0.5
_PAUSE_MAX_S = 8.0
# At most this many orders are in progress, because each holds capacity in the table until it is
# committed.
_AT_ONCE = 256
# A request that makes the scheduler fail with an unexpected error would do so at each attempt.
# After this many such errors, its instances go to ERROR.
_BREAKDOWNS_MAX = 5
# The codes of instance faults are HTTP statuses.
_CANNOT_BE_READ = 400
_BROKEN = 500


class PendingRequests:
    """Places the pending requests of the ledger.

    Requests are pending after a restart, after a failed build, and when an API process without a
    scheduler accepted them. Several schedulers may start on the same request: the key of the claim
    lets one of them commit. They back off from each other, so that few decisions are wasted.

    Args:
        ledger: stores the requests.
        replica: lists the pending requests, as the change feed delivers them.
        placer: places an order.
        clock: measures the delays.
        telemetry: receives failures.
        name: the scheduler's unique name, which also marks the sagas of this process.
        backoff: the delays before a request is started; by default a new `Backoff` for `name`.
        withdrawn: receives the uuids of instances that child zones may have, once their request
            has ended.
    """

    def __init__(  # noqa: PLR0913 - each parameter is one collaborator
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
        """Place every pending request, oldest first; this never returns."""
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
            # A request whose operation this version of Berth does not know stays pending for a
            # newer scheduler.
            if key not in self._at_work and pending.request.operation in AWAITING
        ]
        return sorted(waiting, key=lambda pending: pending.accepted_at_s)

    async def _take_up(self, request: Request) -> None:
        """Place a request, and retry until it is no longer pending."""
        request_id = request.request_id
        CONTEXT.set(Context(request_id))
        pause_s, breakdowns, waits = _PAUSE_FIRST_S, 0, False
        try:
            while request_id in self._replica.pending:
                # Another scheduler may decide the request during the delay, so whether it is still
                # pending is checked again.
                delay_s = self._backoff.delay_s(request_id)
                if delay_s:
                    await self._clock.sleep(delay_s)
                    if request_id not in self._replica.pending:
                        break
                try:
                    async with self._slots:
                        await self._place(request, has_broken=breakdowns >= _BREAKDOWNS_MAX)
                except UncertainFleetError as error:
                    # One event is enough, however long the request waits.
                    if not waits:
                        self._telemetry.event(
                            "pending_request_deferred", request_id=request_id, reason=str(error)
                        )
                    waits = True
                    await self._clock.sleep(_PAUSE_MAX_S)
                except Exception as error:  # noqa: BLE001 - one bad request must not stop the rest
                    # The request stays pending, whatever the error is.
                    breakdowns += not isinstance(error, BerthError)
                    self._tell(request_id, error)
                    await self._clock.sleep(pause_s)
                    pause_s = min(pause_s * 2, _PAUSE_MAX_S)
                else:
                    # The change feed may deliver the end of the request only later.
                    self._replica.pending.pop(request_id, None)
        finally:
            self._at_work.discard(request_id)

    def _tell(self, request_id: str, error: Exception) -> None:
        """Report why an attempt failed. A lost race is reported as an event, not as a failure."""
        if isinstance(error, ConflictError | NotFoundError):
            self._telemetry.event(
                "pending_request_superseded", request_id=request_id, reason=str(error)
            )
        else:
            self._telemetry.failure("pending_request_failed", error, request_id=request_id)

    async def _place(self, request: Request, *, has_broken: bool) -> None:
        # The decision is read first. One unit commits the decision and the instances' new states,
        # so if there was no decision, instances that still wait afterwards have not been decided.
        decision = await self._ledger.get(Decision, request.request_id)
        instances = await self._instances(request)
        if not instances:
            if await self._ledger.get(PendingRequest, request.request_id) is None:
                self._backoff.note_rival()
            else:
                await self._end(request)
        elif has_broken:
            reason = "the scheduler failed unexpectedly on this request; see its log"
            await self._give_up(request, instances, _BROKEN, reason)
        elif decision is not None:
            reason = f"request id {request.request_id} was already used for another request"
            await self._give_up(request, instances, _CANNOT_BE_READ, reason)
        else:
            wanted = replace(request, instance_uuids=tuple(one.uuid for one in instances))
            try:
                await self._placer.place(PlaceOrder(wanted, instances, accepted=True))
                self._backoff.note_own()
            except InvalidInputError as error:
                await self._give_up(request, instances, _CANNOT_BE_READ, str(error))

    async def _instances(self, request: Request) -> tuple[Instance, ...]:
        """Return the request's instances that still wait for it to be decided."""
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
        # A saga that this process began for the request has ended, so its own lease is ignored.
        await self._end(request, *failed, may_be_taken_by=self._name)

    async def _end(self, request: Request, *failed: Write, may_be_taken_by: str = "") -> None:
        """End a request, and withdraw its instances that were sent to child zones.

        Args:
            request: the request.
            failed: further writes of the same unit.
            may_be_taken_by: the name of a scheduler whose lease is ignored.

        Raises:
            ConflictError: a scheduler has leased the request and may send further instances, the
                request has ended, or every attempt lost a race against another change.
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
                raise ConflictError(f"request {key} is leased to scheduler {pending.taken_by}")
            withdrawing = await withdrawals(self._ledger, pending.request.instance_uuids)
            back[:] = [one.instance_uuid for one in withdrawing]
            return (*failed, *map(Put, withdrawing), Remove(Kind.PENDING_REQUEST, key))

        await save_guarded(self._ledger, saga_guard(key), read)
        if self._withdrawn is not None:
            # A withdrawal must not begin before the commit, while the request is still pending.
            self._withdrawn(back)


def _waits_for(request: Request, instance: Instance) -> bool:
    """Return whether an instance waits for this particular request to be decided.

    Its task alone does not tell, because another request for the same action may be in progress.
    """
    if instance.task is not AWAITING[request.operation] or instance.migration_uuid is not None:
        return False
    action = instance.action
    return action is None or request.request_id.startswith(action.request_id)
