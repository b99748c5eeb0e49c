"""The placement service, which decides requests, claims capacity, and retries after lost races.

One unit commits the claim, the instances with their hosts, and the decision. A crash therefore
leaves all of them or none.
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
from berth.domain.errors import ConflictError, UnavailableError, UncertainFleetError
from berth.domain.fast_replace import fast_replace
from berth.domain.hardware.assignment import allocations_by_provider
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
from berth.services.replica.liveness import Liveness
from berth.services.replica.replica import Hold, Replica
from berth.services.requests.orders import PlaceOrder
from berth.services.requests.quotas import check_excess
from berth.services.servers.moves import (
    AWAITING,
    fault_of,
    hold_of_move,
    is_move,
    refuse_move,
    start_move,
    with_sentence,
)
from berth.services.tracking import InstanceTracker
from berth.tables.host.feed import attributes_of

_HARD = (GroupPolicy.AFFINITY, GroupPolicy.ANTI_AFFINITY)
# The maximum number of attempts for one order under a guard. Each lost attempt means that another
# scheduler won, so progress is certain, and more attempts are allowed than without a guard.
_GUARDED_ATTEMPTS_MAX = 50

# The CLI recognizes refusals for contention by this beginning, which must therefore not change.
_ROOM_TAKEN = "Other schedulers took the room first"
_UUID_OF = attrgetter("uuid")
_ASSIGNMENT_OF = attrgetter("assignment")


class PlacementService:
    """Places requests; several schedulers may do so on one ledger at the same time.

    Args:
        ledger: receives the claims.
        follower: keeps the replica up to date with the ledger.
        replica: the host table that decisions read.
        decision_service: makes the decisions.
        clock: provides the times in records.
        attempts_max: the maximum number of decisions on one order when each loses its claim.
        tracker: knows which hosts' instance lists are in doubt; None if agents do not
            broadcast lists.
        liveness: knows whether silent hosts count as down; None if they always do.
        on_overtaken: called when another scheduler turns out to have decided an order.
        observer: receives the stages of each order.
    """

    def __init__(  # noqa: PLR0913 - each parameter is one collaborator
        self,
        *,
        ledger: Ledger,
        follower: Follower,
        replica: Replica,
        decision_service: DecisionService,
        clock: Clock,
        attempts_max: int = 5,
        tracker: InstanceTracker | None = None,
        liveness: Liveness | None = None,
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
        self._liveness = liveness
        self._on_overtaken = on_overtaken
        self._observer = observer
        # The requests that are being placed, by id. Only a repeat that has to wait creates an
        # event, so that the other orders do not bear its cost.
        self._at_work: dict[str, asyncio.Event | None] = {}
        self._group_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._hardware = DeviceLocks()

    async def place(self, order: PlaceOrder) -> Decision:
        """See `Placer.place`."""
        with self._observer.place(order.request, len(order.instances)) as report:
            decision = await self._place_once(order)
            report(decision)
        return decision

    async def _place_once(self, order: PlaceOrder) -> Decision:
        """Place an order, or return its decision if it was placed before."""
        request_id = order.request.request_id
        if order.request.operation not in AWAITING:
            raise UnavailableError(
                f"this scheduler does not know the operation {order.request.operation!s} of "
                f"request {request_id}; upgrade this scheduler, or let a newer one place it"
            )
        repeated = any(map(self._replica.is_placed, map(_UUID_OF, order.instances)))
        while request_id in self._at_work:
            await self._wait_for(request_id)
            repeated = True
        self._at_work[request_id] = None
        try:
            # A repeat must not be decided again, because its holds would charge a second time for
            # the capacity that the first decision has claimed.
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
        """Wait until a request that this process is placing is done."""
        done = self._at_work[request_id]
        if done is None:
            done = self._at_work[request_id] = asyncio.Event()
        await done.wait()

    async def _place_member(self, order: PlaceOrder, group_uuid: str) -> Decision:
        """Place an order whose instances belong to a server group.

        With a hard policy the orders of a group are serialized. The allowed hosts depend on where
        the other members are, so each decision needs a table that includes the previous one.
        """
        if group_uuid not in self._replica.hosts.server_groups:
            # The group may be newer than the replica. Without it the members would be placed as if
            # they belonged to no group.
            await self._follower.catch_up()
        group = self._replica.hosts.server_groups.get(group_uuid)
        if group is None or group.policy not in _HARD:
            return await self._place(order, guard=None)
        async with self._group_locks.setdefault(group.uuid, asyncio.Lock()):
            return await self._place(order, guard=group_guard(group.uuid))

    async def _place(self, order: PlaceOrder, *, guard: str | None) -> Decision:
        # The guards of groups and devices compare versions, so any other placement in the group or
        # on the host makes a claim stale. Such claims get more attempts than claims of plain
        # amounts.
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
                # The table may be older than the order, and miss hosts added or capacity freed
                # since. One catch-up is enough, because it ends after the order arrived.
                if not is_fresh and await self._has_news():
                    is_fresh = True
                    continue
                self._check_certain(order)
                return await self._refuse(order, decision)
            decision = _as_offered(order, decision)
            outcome = await self._claim(order, decision, guard)
            if isinstance(outcome, Committed) and not outcome.repeated:
                self._decision_service.note_claim(is_lost=False)
                return decision
            # A repeated claim key, or a record that is not as expected, means that the request has
            # been decided elsewhere.
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

    def _check_certain(self, order: PlaceOrder) -> None:
        """Keep an order from being refused because of hosts that may be up.

        An order that may go to another zone, or that a parent can send elsewhere, is refused.

        Raises:
            UncertainFleetError: the silence of the hosts proves nothing.
        """
        liveness, goes_on = self._liveness, order.offer or order.may_leave
        if liveness is not None and not goes_on and liveness.is_uncertain():
            raise UncertainFleetError(
                f"request {order.request.request_id} waits, because {liveness.silence}"
            )

    async def _has_news(self) -> bool:
        """Catch up with the ledger, and return whether that changed the host table."""
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
        """Hold the decision's capacity in the replica, commit the claim, and return the outcome.

        The holds end even when the outcome of the commit is unknown, because nothing else would
        end them. If the claim was committed after all, the change feed delivers it.
        """
        instances = {one.uuid: one for one in order.instances}
        holds = [
            _hold_of(one, decision, order.request, instances[one.instance_uuid])
            for one in decision.placements
        ]
        uuids = [hold.instance_uuid for hold in holds]
        settled = False
        try:
            for hold in holds:
                # The holds precede the commit, so that decisions during the commit see the capacity
                # as taken.
                self._replica.hold(hold)
            writes = await self._claim_writes(order, decision)
            if guard is not None:
                # The guard names the version of the decision's table, so any later placement in the
                # group makes the claim stale.
                writes.append(Guard(guard, decision.table_version))
            if _is_any_assigned(decision) and hosts_with_choices(decision.placements):
                outcome = await self._commit_in_turn(order, decision, writes)
            else:
                outcome = await self._commit(order, decision, writes)
            if isinstance(outcome, Committed) and not outcome.repeated:
                # The feed's changes of this version will replace the holds.
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
        # The migration's id is drawn before the commit, so a rejected claim leaves a gap.
        number = await self._ledger.next_id(Kind.MIGRATION)
        return start_move(order.request, order.instances[0], decision, number)

    async def _commit_in_turn(
        self, order: PlaceOrder, decision: Decision, writes: Sequence[Write]
    ) -> Outcome:
        """Commit a decision that assigns CPUs or devices, serialized on each of its hosts."""
        version = decision.table_version
        async with self._hardware.guards(decision.placements, version) as guards:
            outcome = await self._commit(order, decision, [*writes, *guards])
            if isinstance(outcome, Committed) and not outcome.repeated:
                self._hardware.note(guards, outcome.version)
            return outcome

    async def _refuse(self, order: PlaceOrder, decision: Decision) -> Decision:
        refusal = decision.refusal
        # An order that may leave this zone writes nothing here, because another zone may still
        # place it under the same key.
        if order.may_leave and refusal is not None:
            raise NoValidHostError(order.request.request_id, refusal)
        now_s = self._clock.now_s()
        writes: list[Write] = [
            # The key of an empty claim makes a repeated refusal idempotent, like any other outcome.
            Take(Claim(key=order.request.request_id, allocations=())),
        ]
        if not order.offer:
            writes += _refusal_writes(order, decision, now_s)
        outcome = await self._commit(order, decision, writes)
        if isinstance(outcome, Committed) and not outcome.repeated:
            return decision
        return await self._first_decision(decision)

    async def _commit(
        self, order: PlaceOrder, decision: Decision, writes: Sequence[Write]
    ) -> Outcome:
        unit = [*writes, Put(decision)]
        # The same unit removes the pending request, so after a crash the request is either still
        # pending or decided.
        if order.accepted:
            unit.append(Remove(Kind.PENDING_REQUEST, order.request.request_id))
        if order.within is not None:
            unit.append(order.within)
        with self._observer.commit(order.request, decision) as report:
            (outcome,) = await self._ledger.commit([tuple(unit)])
            check_excess(outcome)
            report(outcome)
        return outcome

    async def _first_decision(self, own_decision: Decision) -> Decision:
        """Return the recorded decision of another scheduler or of an earlier attempt.

        Raises:
            ConflictError: no decision is recorded, because an instance of the order has changed.
            UnavailableError: the ledger cannot be reached.
        """
        if self._on_overtaken is not None:
            self._on_overtaken()
        stored = await self._ledger.get(Decision, own_decision.request_id)
        if stored is None:
            # Without a decision, the unit was rejected because an instance has changed; its owner
            # may have deleted it.
            raise ConflictError(
                f"request {own_decision.request_id}: an instance has changed; read it again"
            )
        return stored


def _as_offered(order: PlaceOrder, decision: Decision) -> Decision:
    """Return the decision with the choice that the claimed offer was based on.

    When an offer is claimed, its host is the only candidate, and the other offers still hold
    capacity in the table. A decision made now would not explain why the host was chosen, so the
    record takes the explanation from the offer.
    """
    offered = order.offered
    if offered is None or decision.placements[0].provider_uuid != offered.provider_uuid:
        return decision
    (placed,) = decision.placements
    shown = replace(
        placed,
        candidates=offered.candidates,
        chosen=offered.chosen,
        runners_up=offered.runners_up,
    )
    return replace(decision, placements=(shown,))


def _hold_of(
    placement: Placement, decision: Decision, request: Request, instance: Instance
) -> Hold:
    if is_move(request):
        return hold_of_move(placement, decision, request, instance)
    resident = resident_of(request, instance.uuid, placement.assignment)
    # The feed will report the same attributes, so the table need not replace them.
    return Hold(resident, placement.provider_uuid, decision.amounts, attributes_of(instance))


def _new_instance_writes(order: PlaceOrder, decision: Decision) -> list[Write]:
    """Return the writes of the claim and of the instances with their hosts."""
    instances = {instance.uuid: instance for instance in order.instances}
    allocations: list[Allocation] = []
    placed: list[Write] = []
    for one in decision.placements:
        uuid = one.instance_uuid
        gives = allocations_by_provider(one.provider_uuid, decision.amounts, one.assignment)
        allocations += [Allocation(uuid, provider, amounts) for provider, amounts in gives.items()]
        placed.append(Put(_placed(instances[uuid], one, decision)))
    return [Take(Claim(order.request.request_id, tuple(allocations))), *placed]


def _is_any_assigned(decision: Decision) -> bool:
    """Return whether any placement has an assignment."""
    return any(map(_ASSIGNMENT_OF, decision.placements))


def _refusal_writes(order: PlaceOrder, decision: Decision, now_s: float) -> list[Write]:
    request, fault = order.request, fault_of(decision, now_s, order.told)
    if is_move(request) or request.operation is Operation.UNSHELVE:
        return refuse_move(request, order.instances[0], decision, fault)
    details = order.told_operators
    return [Put(_refused(one, decision, fault, details, now_s)) for one in order.instances]


def _refused(
    instance: Instance, decision: Decision, fault: Fault, details: str, now_s: float
) -> Instance:
    """Return an instance in ERROR, with the fault of an earlier failed build appended."""
    earlier = instance.fault
    if earlier is not None:
        fault = with_sentence(fault, earlier.message)
    told = "\n".join(one for one in (details, earlier.details if earlier else "") if one)
    fault = replace(fault, details=told)
    return replace(
        instance,
        status=Status.ERROR,
        task=None,
        fault=fault,
        decision_id=decision.request_id,
        updated_at_s=now_s,
    )


def _placed(instance: Instance, placement: Placement, decision: Decision) -> Instance:
    # A shelved instance keeps its status until its agent has started the guest.
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
    """Return a decision as the refusal of an order whose claims were all lost."""
    refusal = Refusal(
        code=RefusalCode.CONTENTION,
        message=(
            f"{_ROOM_TAKEN}, {decision.attempts} times in a row. "
            "Try again, or raise host_subset_size so that schedulers choose different hosts."
        ),
        placed=0,
        asked=asked,
        hosts_total=decision.filters[0].before if decision.filters else 0,
        filters=decision.filters,
        summary=f"{_ROOM_TAKEN}. Try again.",
    )
    return replace(decision, verdict=Verdict.REFUSED, placements=(), refusal=refusal)
