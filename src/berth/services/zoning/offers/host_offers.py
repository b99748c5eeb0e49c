"""Makes offers of this zone's own hosts, and holds their room."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from berth.domain.compute.decision import Decision, RefusalCode, Verdict
from berth.domain.compute.request import Operation, Request
from berth.domain.compute.server_group import ServerGroup
from berth.domain.zones.offer import SELECT_ID_BYTES
from berth.domain.zones.zone_orders import SelectOrder
from berth.ports.clock import Clock
from berth.scheduling.drivers.multi import MultiScheduler
from berth.scheduling.evaluation.policy import Policy
from berth.scheduling.rules.rule import Normalisation
from berth.services.decisions.decisions import DecisionService
from berth.services.replica.follower import Follower
from berth.services.replica.replica import Replica
from berth.services.zoning.offers.held_offers import HeldOffers, steady_s
from berth.services.zoning.offers.inquiry_limit import InquiryTurns
from berth.tables.host.hosts import HostTable


@dataclass(frozen=True, slots=True)
class HostOffer:
    """Room for one instance on the host with the root provider `provider_uuid`."""

    weight: float
    provider_uuid: str


@dataclass(frozen=True, slots=True)
class HostOffers:
    """The offers of this zone's hosts for one select, best first.

    Each offer is valid only together with those before it, and until `ends_at_s` (Unix seconds).
    """

    select_id: bytes
    offers: tuple[HostOffer, ...]
    ends_at_s: float
    decision: Decision
    """The decision behind the offers; it names hosts, so it does not leave the zone."""


class HostOfferMaker:
    """Makes offers from the host table of one scheduler.

    Args:
        zone: the name of this zone.
        replica: the replica with the host table.
        follower: catches the replica up with the ledger before a refusal.
        decision_service: decides under the policy in force.
        held: holds the room of offers.
        clock: provides the time of day and a monotonic counter.
        random_bytes: returns the given number of random bytes.
        hold_s: seconds for which an offer's room is held; 0 holds nothing.
        life_s: seconds for which an offer may be used, held or not.

    Attributes:
        held: the room that is held for offers.
    """

    def __init__(  # noqa: PLR0913 - each parameter is one collaborator
        self,
        *,
        zone: str,
        replica: Replica,
        follower: Follower,
        decision_service: DecisionService,
        held: HeldOffers,
        clock: Clock,
        random_bytes: Callable[[int], bytes],
        hold_s: float,
        life_s: float,
    ) -> None:
        self._replica = replica
        self._follower = follower
        self._decision_service = decision_service
        self.held = held
        self._clock = clock
        self._random_bytes = random_bytes
        self._hold_s = hold_s
        self._life_s = life_s
        self._turns = InquiryTurns(zone, clock)

    async def offer(self, order: SelectOrder) -> HostOffers:
        """Make offers for as many of a request's instances as fit, and hold their room.

        Raises:
            InvalidInputError: the flavor or the image has a malformed spec.
            UnavailableError: the ledger cannot be reached, or the deadline of a dry run passed
                while it waited for others.
        """
        self.held.expire(steady_s(self._clock))
        if order.hold:
            decision = await self._decide_up_to_date(order)
        else:
            async with self._turns.turn(order):
                decision = await self._decide_up_to_date(order)
        now_s = self._clock.now_s()
        select_id = self._random_bytes(SELECT_ID_BYTES)
        if order.hold and self._hold_s > 0:
            self.held.hold(
                select_id,
                order.audience,
                order.request,
                decision.placements,
                decision.amounts,
                ends_s=steady_s(self._clock) + self._hold_s,
            )
        offers = (HostOffer(one.chosen.score, one.provider_uuid) for one in decision.placements)
        return HostOffers(select_id, tuple(offers), now_s + self._life_s, decision)

    async def _decide_up_to_date(self, order: SelectOrder) -> Decision:
        decision = self._decide(order)
        if decision.verdict is Verdict.REFUSED and await self._follower.catch_up():
            # A refusal must not be based on a table that is older than the order.
            decision = self._decide(order)
        return decision

    def _decide(self, order: SelectOrder) -> Decision:
        """Decide placements for all instances, or for as many as fit."""
        if order.group is None:
            return self._decide_alone(order.request)
        with known_group(self._replica.hosts, order.group):
            return self._decide_alone(order.request)

    def _decide_alone(self, request: Request) -> Decision:
        decision = self._decision_service.decide(request)
        refusal = decision.refusal
        if refusal is None or refusal.code is not RefusalCode.NOT_ENOUGH or not refusal.placed:
            return decision
        return self._decision_service.decide(_part_of(request, refusal.placed))


def _part_of(request: Request, count: int) -> Request:
    return replace(request, instance_uuids=request.instance_uuids[:count])


@contextmanager
def known_group(hosts: HostTable, group: ServerGroup) -> Generator[None]:
    """Add a parent's group to the table for the duration of a decision, which must not await."""
    # A decision has no await, so no other request sees the group.
    if group.uuid in hosts.server_groups:
        yield
        return
    hosts.server_groups[group.uuid] = group
    try:
        yield
    finally:
        del hosts.server_groups[group.uuid]


def incomparable_reason(policy: Policy) -> str | None:
    """Return why a policy's scores cannot be compared with other zones', or None if they can.

    See ADR 0025, "Weights are shares".
    """
    driver = policy.driver
    if isinstance(driver, MultiScheduler):
        driver = driver.drivers[driver.routes.get(Operation.CREATE, driver.default)]
    if driver.name == "least_cost" and policy.normalisation is not Normalisation.SHARE:
        return (
            "least_cost divides each cost by the greatest cost among the hosts that pass the "
            'filters; set normalisation = "share" in the policy'
        )
    if driver.name in {"chance", "availability_zone"}:
        return f"{driver.name} gives all hosts the same score"
    if driver.name == "simple" or policy.normalisation is Normalisation.SHARE:
        return None
    return (
        "weights are scaled to the least and the greatest value among the hosts that pass the "
        'filters; set normalisation = "share" in the policy'
    )
