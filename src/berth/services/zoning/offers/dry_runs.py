"""Dry runs over a tree of zones: the decision that a request would get, without placing it."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from berth.domain.compute.decision import ZONE_AWARE_DRIVER, TriedDecision, Verdict, ZoneCount
from berth.domain.compute.request import Destination, Request
from berth.domain.compute.server_group import ServerGroup
from berth.domain.zones.offer import ChildTerms
from berth.domain.zones.zone_orders import SelectOrder
from berth.ports.clock import Clock
from berth.services.decisions.decisions import DecisionService
from berth.services.zoning.offers.group_homes import GroupHomes, home_at, home_of
from berth.services.zoning.offers.inquiry_limit import InquiryTurns
from berth.services.zoning.offers.offer_seals import LAYER_BYTES, blob_bytes_of
from berth.services.zoning.offers.selection import OfferSelector, Selection

NOWHERE = Destination("the child zone of its server group")
"""A destination that no host of this zone has, for a request whose group is in a child zone.

The name explains the refusal in the record of the decision.
"""
PART_IS_SILENT = "A part of the cloud gave no answer and may have room; try again."
"""The sentence in a refusal that tells a tenant that some child zones did not answer."""


class TreeDryRuns:
    """Decides on requests as `TreePlacement` does, without holding, claiming or recording anything.

    Args:
        zone: the name of this zone.
        decision_service: decides on requests that stay in this zone.
        selector: collects offers of this zone's hosts and of its children.
        homes: the home zones of server groups.
        name_of: returns the name of a child by its id.
        clock: provides the time of day.
        select_s: the seconds within which children must answer.
        levels_max: the number of levels of zones under this one that are asked.
    """

    def __init__(  # noqa: PLR0913 - each parameter is one collaborator
        self,
        *,
        zone: str,
        decision_service: DecisionService,
        selector: OfferSelector,
        homes: GroupHomes,
        name_of: Callable[[int], str],
        clock: Clock,
        select_s: float = 2.0,
        levels_max: int = 4,
    ) -> None:
        self._zone = zone
        self._decision_service = decision_service
        self._selector = selector
        self._homes = homes
        self._name_of = name_of
        self._clock = clock
        self._select_s = select_s
        self._levels_max = levels_max
        self._turns = InquiryTurns(zone, clock)

    async def decide(self, request: Request, *, explains: bool = False) -> TriedDecision:
        """Return the decision that a create of the request would get now.

        If all hosts are in this zone, the decision names them. Otherwise it has the number of
        instances for each zone, because children do not reveal the names of their hosts.

        Args:
            request: a request for new instances.
            explains: whether to find the host that would win without each weigher; see
                `DecisionService.try_out`.

        Raises:
            InvalidInputError: the flavor or the image has a malformed spec.
            UnavailableError: the ledger cannot be reached, or earlier dry runs of this process took
                until the deadline.
        """
        group = await self._homes.group_of(request)
        until_s = self._clock.now_s() + self._select_s
        order = inquiry(request, group, self._zone, until_s, self._levels_max)
        selection = await self._selector.select(order)
        is_enough = len(selection.choices) == len(request.instance_uuids)
        if is_enough and any(isinstance(one.where, ChildTerms) for one in selection.choices):
            decision = self._over_zones(request, selection)
        else:
            if not is_enough and home_of(await self._homes.seen_by_all(group)):
                # The members of the group are in a child, so no host of this zone can take more.
                request = replace(request, destination=NOWHERE)
            # Children may have taken until the deadline to answer.
            order = replace(order, deadline_s=self._clock.now_s() + self._select_s)
            async with self._turns.turn(order):
                decision = self._in_this_zone(request, explains=explains)
        if not selection.partial:
            return decision
        refusal = decision.refusal
        if refusal is not None:
            refusal = replace(refusal, message=f"{refusal.message} {PART_IS_SILENT}")
        missing = selection.partial
        return replace(decision, refusal=refusal, is_partial=True, zones_missing=missing)

    def _in_this_zone(self, request: Request, *, explains: bool) -> TriedDecision:
        if explains:
            return self._decision_service.try_out(request)
        return TriedDecision.of(self._decision_service.decide(request), ())

    def _over_zones(self, request: Request, selection: Selection) -> TriedDecision:
        counts = Counter(home_at(one.where) for one in selection.choices)
        return TriedDecision(
            request_id=request.request_id,
            verdict=Verdict.PLACED,
            policy_name="",
            policy_hash="",
            driver=ZONE_AWARE_DRIVER,
            seed=0,
            table_version=0,
            decided_at_s=self._clock.now_s(),
            duration_us=0,
            project_id=request.project_id,
            zones=tuple(ZoneCount(self._name(one), count) for one, count in counts.most_common()),
        )

    def _name(self, zone_id: int) -> str:
        return self._name_of(zone_id) if zone_id else self._zone


def inquiry(
    request: Request, group: ServerGroup | None, zone: str, until_s: float, levels_max: int
) -> SelectOrder:
    """Return the order by which a zone asks itself and the zones under it, without holding offers.

    Args:
        request: the request of a client of this zone.
        group: its server group.
        zone: the name of this zone.
        until_s: the deadline, in Unix seconds.
        levels_max: the number of levels of zones under this one for which offers have room.
    """
    # The zone that receives a request seals no layer, so its children may use that layer's bytes.
    blob_bytes = blob_bytes_of(levels_max) + LAYER_BYTES
    return SelectOrder(request, zone, until_s, blob_bytes, group, hold=False)
