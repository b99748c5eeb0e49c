"""Placing: decide, claim, and try again when somebody else was faster.

What is committed is one unit: the claim, the instances with their hosts, the decision. So a
crash leaves all of it or nothing.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import attrgetter
from weakref import WeakValueDictionary

from berth.domain.compute.decision import (
    Decision,
    NoValidHostError,
    Placement,
    Refusal,
    RefusalCode,
    Verdict,
)
from berth.domain.compute.instance import Fault, Instance, Status, Task
from berth.domain.compute.request import Operation, Request
from berth.domain.compute.server_group import GroupPolicy
from berth.domain.errors import ConflictError, UnavailableError
from berth.domain.fast_replace import fast_replace
from berth.domain.hardware.assignment import taken
from berth.domain.inventory.allocation import Allocation, Claim
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Committed, Guard, Outcome, Put, Remove, Take, Write
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.ports.observer import NO_OBSERVER, Observer
from berth.scheduling.rules.rule import resident_of
from berth.services.decisions.decisions import DecisionService
from berth.services.decisions.device_locks import DeviceLocks, hosts_with_choices
from berth.services.providers.guarded_saves import group_guard
from berth.services.replica.follower import Follower
from berth.services.replica.replica import Hold, Replica
from berth.services.requests.orders import PlaceOrder
from berth.services.requests.quotas import check_excess
from berth.services.servers.moves import (
    AWAITING,
    NO_VALID_HOST,
    hold_of_move,
    is_move,
    refuse_move,
    start_move,
)
from berth.services.tracking import InstanceTracker

_HARD = (GroupPolicy.AFFINITY, GroupPolicy.ANTI_AFFINITY)
_GUARDED_ATTEMPTS_MAX = 50
"""Plans for one order under a guard: each that is lost was won by another scheduler."""

_UUID_OF = attrgetter("uuid")
_ASSIGNMENT_OF = attrgetter("assignment")


class PlacementService:
    """Places requests. Several schedulers may do so at once on one ledger.

    Args:
        ledger: where claims are committed.
        follower: keeps the replica up to date with the ledger.
        replica: the host table that decisions read.
        decision_service: makes the decisions.
        clock: the source of the time in records.
        attempts_max: the number of plans for one order, when each loses its claim.
        tracker: knows which hosts' instances are in doubt, or None when agents do not cast them.
        on_overtaken: called when an order turns out to have been decided by another scheduler.
        observer: receives the stages of each order.
    """

    def __init__(  # noqa: PLR0913 - one part each
        self,
        *,
        ledger: Ledger,
        follower: Follower,
        replica: Replica,
        decision_service: DecisionService,
        clock: Clock,
        attempts_max: int = 5,
        tracker: InstanceTracker | None = None,
        on_overtaken: Callable[[], None] | None = None,
        observer: Observer = NO_OBSERVER,
    ) -> None:
        self._ledger = ledger
        self._follower = follower
        self._replica = replica
        self._decision_service = decision_service
        self._clock = clock
        self._attempts_max = attempts_max
        self._tracker = tracker
        self._on_overtaken = on_overtaken
        self._observer = observer
        self._at_work: dict[str, asyncio.Event | None] = {}
        """Requests that are being placed; with an event once somebody waits for one to be done."""
        self._group_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._hardware = DeviceLocks()

    async def place(self, order: PlaceOrder) -> Decision:
        """Place all instances of an order, or none and say why; either way it is recorded.

        Placing the same order again answers with what was decided the first time.

        Raises:
            InvalidInputError: flavor or image hold a spec that cannot be read.
            ConflictError: an instance of the order has changed; read it again.
            QuotaExceededError: its project would have more than it may.
            NoValidHostError: there is no room here for an order that may leave.
            UnavailableError: the ledger cannot be reached, or only a newer Berth knows the
                operation; place the same order again.
        """
        with self._observer.place(order.request, len(order.instances)) as report:
            decision = await self._place_once(order)
            report(decision)
        return decision

    async def _place_once(self, order: PlaceOrder) -> Decision:
        """Place an order unless that was done before; then return the decision of that time."""
        request_id = order.request.request_id
        if order.request.operation not in AWAITING:
            raise UnavailableError(
                f"this scheduler does not know the operation {order.request.operation!s} of "
                f"request {request_id}; upgrade it, or leave the request to a newer one"
            )
        repeated = any(map(self._replica.is_placed, map(_UUID_OF, order.instances)))
        while request_id in self._at_work:
            await self._wait_for(request_id)
            repeated = True
        self._at_work[request_id] = None
        try:
            # A repeat must not be decided anew: its holds would get in the way of the first's.
            earlier = await self._ledger.get(Decision, request_id) if repeated else None
            if earlier is not None:
                return earlier
            if order.request.group_uuid is None:
                return await self._place(order, guard=None)
            return await self._place_member(order, order.request.group_uuid)
        finally:
            done = self._at_work.pop(request_id)
            if done is not None:
                done.set()

    async def _wait_for(self, request_id: str) -> None:
        """Wait until a request that is being placed is done with."""
        done = self._at_work[request_id]
        if done is None:
            done = self._at_work[request_id] = asyncio.Event()
        await done.wait()

    async def _place_member(self, order: PlaceOrder, group_uuid: str) -> Decision:
        """Place an order for members of a server group.

        With a hard policy they come one after another: where one may go depends on where all
        others are, so each is decided on a table that knows the one before.
        """
        if group_uuid not in self._replica.hosts.server_groups:
            # It may be newer than the replica, which would place its members as if in none.
            await self._follower.catch_up()
        group = self._replica.hosts.server_groups.get(group_uuid)
        if group is None or group.policy not in _HARD:
            return await self._place(order, guard=None)
        async with self._group_locks.setdefault(group.uuid, asyncio.Lock()):
            return await self._place(order, guard=group_guard(group.uuid))

    async def _place(self, order: PlaceOrder, *, guard: str | None) -> Decision:
        attempts_max = self._attempts_max if guard is None else _GUARDED_ATTEMPTS_MAX
        attempt = 1
        is_fresh = False
        while True:
            if guard is not None:
                await self._follower.catch_up()
            tracker = self._tracker
            if tracker is None or not tracker.is_in_doubt:
                decision = self._decision_service.decide(order.request, attempt=attempt)
            else:
                settled = await tracker.settle(order.request)
                decision = tracker.dated(
                    self._decision_service.decide(
                        order.request, attempt=attempt, left_out=settled.left_out
                    ),
                    settled,
                )
            if decision.verdict is Verdict.REFUSED:
                # A refusal must not rest on a table from before the order came.
                if not is_fresh and await self._has_news():
                    is_fresh = True
                    continue
                return await self._refuse(order, decision)
            decision = _as_offered(order, decision)
            outcome = await self._claim(order, decision, guard)
            if isinstance(outcome, Committed) and not outcome.repeated:
                self._decision_service.note_claim(is_lost=False)
                return decision
            if isinstance(outcome, Committed) or (outcome.conflict and not outcome.stale):
                return await self._first_decision(decision)
            self._decision_service.note_claim(is_lost=True)
            await self._follower.catch_up()
            is_fresh = True
            if hosts_with_choices(decision.placements):
                attempts_max = _GUARDED_ATTEMPTS_MAX
                if tracker is not None:
                    tracker.note_stale(decision.placements)
            if attempt == attempts_max:
                return await self._refuse(order, _contended(decision, len(order.instances)))
            attempt += 1

    async def _has_news(self) -> bool:
        """Catch up with the ledger; tell whether that changed anything that rules read."""
        hosts, step = self._replica.hosts, self._replica.hosts.journal.step
        await self._follower.catch_up()
        return self._replica.hosts is not hosts or hosts.journal.step != step

    async def _claim(self, order: PlaceOrder, decision: Decision, guard: str | None) -> Outcome:
        with self._observer.claim(decision) as report:
            outcome = await self._hold_and_commit(order, decision, guard)
            report(outcome)
        return outcome

    async def _hold_and_commit(
        self, order: PlaceOrder, decision: Decision, guard: str | None
    ) -> Outcome:
        """Hold what was decided and have it committed.

        When the outcome stays unknown the holds are let go too: nobody would ever end them. If
        the claim was committed after all, the feed tells.
        """
        holds = [_hold_of(one, decision, order.request) for one in decision.placements]
        uuids = [hold.instance_uuid for hold in holds]
        settled = False
        try:
            for hold in holds:
                self._replica.hold(hold)
            writes = await self._claim_writes(order, decision)
            if guard is not None:
                writes.append(Guard(guard, decision.table_version))
            if _is_any_assigned(decision) and hosts_with_choices(decision.placements):
                outcome = await self._commit_in_turn(order, decision, writes)
            else:
                outcome = await self._commit(order, decision, writes)
            if isinstance(outcome, Committed) and not outcome.repeated:
                self._replica.settle(uuids, outcome.version)
                settled = True
        finally:
            if not settled:
                for uuid in uuids:
                    self._replica.release(uuid)
        return outcome

    async def _claim_writes(self, order: PlaceOrder, decision: Decision) -> list[Write]:
        if not is_move(order.request):
            return _new_instance_writes(order, decision)
        number = await self._ledger.next_id(Kind.MIGRATION)
        return start_move(order.request, order.instances[0], decision, number)

    async def _commit_in_turn(
        self, order: PlaceOrder, decision: Decision, writes: Sequence[Write]
    ) -> Outcome:
        """Commit what takes CPUs or devices of hosts, one after another on each host."""
        version = decision.table_version
        async with self._hardware.guards(decision.placements, version) as guards:
            outcome = await self._commit(order, decision, [*writes, *guards])
            if isinstance(outcome, Committed) and not outcome.repeated:
                self._hardware.note(guards, outcome.version)
            return outcome

    async def _refuse(self, order: PlaceOrder, decision: Decision) -> Decision:
        refusal = decision.refusal
        if order.may_leave and refusal is not None:
            raise NoValidHostError(order.request.request_id, refusal)
        message = refusal.message if refusal else ""
        if order.told:
            message = f"{message} {order.told}"
        now_s = self._clock.now_s()
        writes: list[Write] = [
            # An empty claim: its key makes a repeated refusal a repeat, like any other outcome.
            Take(Claim(key=order.request.request_id, allocations=())),
        ]
        if not order.offer:
            writes += _refusal_writes(order, decision, message, now_s)
        outcome = await self._commit(order, decision, writes)
        if isinstance(outcome, Committed) and not outcome.repeated:
            return decision
        return await self._first_decision(decision)

    async def _commit(
        self, order: PlaceOrder, decision: Decision, writes: Sequence[Write]
    ) -> Outcome:
        unit = [*writes, Put(decision)]
        if order.accepted:
            unit.append(Remove(Kind.PENDING_REQUEST, order.request.request_id))
        if order.within is not None:
            unit.append(order.within)
        with self._observer.commit(order.request, decision) as report:
            (outcome,) = await self._ledger.commit([tuple(unit)])
            check_excess(outcome)
            report(outcome)
        return outcome

    async def _first_decision(self, mine: Decision) -> Decision:
        """Return what was decided when another scheduler, or an earlier try, was there first."""
        if self._on_overtaken is not None:
            self._on_overtaken()
        stored = await self._ledger.get(Decision, mine.request_id)
        if stored is None:
            # Not decided, so an instance changed under us: its owner deleted it, say.
            raise ConflictError(f"request {mine.request_id}: its instances have changed meanwhile")
        return stored


def _as_offered(order: PlaceOrder, decision: Decision) -> Decision:
    """Have the record of a claim tell of the choice that it goes back to.

    When an offer is claimed its host is the only candidate, and the table counts what else is
    still held: neither says why it was chosen.
    """
    offered = order.offered
    if offered is None or decision.placements[0].provider_uuid != offered.provider_uuid:
        return decision
    (placed,) = decision.placements
    told = replace(
        placed,
        candidates=offered.candidates,
        chosen=offered.chosen,
        runners_up=offered.runners_up,
    )
    return replace(decision, placements=(told,))


def _hold_of(placement: Placement, decision: Decision, request: Request) -> Hold:
    if is_move(request):
        return hold_of_move(placement, decision, request)
    resident = resident_of(request, placement.instance_uuid, placement.assignment)
    return Hold(resident, placement.provider_uuid, decision.amounts)


def _new_instance_writes(order: PlaceOrder, decision: Decision) -> list[Write]:
    """Return the claim, and the instances with their hosts."""
    instances = {instance.uuid: instance for instance in order.instances}
    allocations: list[Allocation] = []
    placed: list[Write] = []
    for one in decision.placements:
        uuid = one.instance_uuid
        gives = taken(one.provider_uuid, decision.amounts, one.assignment)
        allocations += [Allocation(uuid, provider, amounts) for provider, amounts in gives.items()]
        placed.append(Put(_placed(instances[uuid], one, decision)))
    return [Take(Claim(order.request.request_id, tuple(allocations))), *placed]


def _is_any_assigned(decision: Decision) -> bool:
    """Tell whether an instance gets anything beyond the amounts, as few do."""
    return any(map(_ASSIGNMENT_OF, decision.placements))


def _refusal_writes(
    order: PlaceOrder, decision: Decision, message: str, now_s: float
) -> list[Write]:
    request = order.request
    if is_move(request) or request.operation is Operation.UNSHELVE:
        return refuse_move(request, order.instances[0], decision, message, now_s)
    details = order.told_operators
    return [Put(_refused(one, decision, message, details, now_s)) for one in order.instances]


def _refused(
    instance: Instance, decision: Decision, message: str, details: str, now_s: float
) -> Instance:
    """Put an instance in ERROR; why its build failed before is kept with why no host is left."""
    earlier = instance.fault
    fault = Fault(
        code=NO_VALID_HOST,
        message=message if earlier is None else f"{message} {earlier.message}",
        created_at_s=now_s,
        details="\n".join(one for one in (details, earlier.details if earlier else "") if one),
    )
    return replace(
        instance,
        status=Status.ERROR,
        task=None,
        fault=fault,
        decision_id=decision.request_id,
        updated_at_s=now_s,
    )


def _placed(instance: Instance, placement: Placement, decision: Decision) -> Instance:
    is_unshelved = instance.status is Status.SHELVED_OFFLOADED
    return fast_replace(
        instance,
        status=instance.status if is_unshelved else Status.BUILD,
        task=Task.UNSHELVING if is_unshelved else Task.SPAWNING,
        host=placement.host,
        node=placement.node,
        assignment=placement.assignment,
        alternates=placement.alternates,
        decision_id=decision.request_id,
        updated_at_s=decision.decided_at_s,
    )


def _contended(decision: Decision, asked: int) -> Decision:
    """Turn a plan that never got its claim into a refusal that says so."""
    refusal = Refusal(
        code=RefusalCode.CONTENTION,
        message=(
            f"Other schedulers took the room first, {decision.attempts} times in a row. Try again,"
            " or raise host_subset_size so that schedulers choose different hosts."
        ),
        placed=0,
        asked=asked,
        hosts_total=decision.filters[0].before if decision.filters else 0,
        filters=decision.filters,
    )
    return replace(decision, verdict=Verdict.REFUSED, placements=(), refusal=refusal)
