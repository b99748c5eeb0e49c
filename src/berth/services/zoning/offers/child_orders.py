"""The orders of a zone to its children: which children are asked, for what, and until when."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Protocol

from berth.domain.compute.request import Request
from berth.domain.zones.zone import Zone
from berth.domain.zones.zone_orders import SelectOrder
from berth.ports.clock import Clock
from berth.ports.telemetry import Telemetry
from berth.services.zoning.children.host_names_in_requests import host_naming_field
from berth.services.zoning.messages.loop_tokens import LoopTokens
from berth.services.zoning.offers.group_homes import home_of
from berth.services.zoning.offers.offer_seals import child_blob_bytes

OWN_S: Final = 0.005
"""The seconds before its deadline that a zone reserves to merge, seal and answer.

`_OWN_EACH_S` is added for each instance.
"""
_OWN_EACH_S: Final = 0.00005
# The reserve is at least this share of the remaining time, so that a late child does not make its
# parent late.
_OWN_SHARE: Final = 0.1
# The same problem of a parent or a child recurs with each order, so it is reported at most once in
# this many seconds.
_TELL_AGAIN_S: Final = 60.0


class ActiveZones(Protocol):
    """Lists the enabled children, separately those that are up and those that are down."""

    def active(self) -> Sequence[Zone]:
        """Return the children that are enabled and up, ordered by id."""
        ...

    def offline(self) -> Sequence[Zone]:
        """Return the children that are enabled and known to be down, ordered by id."""
        ...


class ChildOrders:
    """Derives the orders for children from the orders that a zone receives.

    Args:
        zone: the name of this zone.
        zones: lists the enabled children.
        loop_tokens: makes the token of this zone for each order.
        clock: provides the time of day.
        telemetry: receives problems of parents' orders and failures of children.
    """

    def __init__(
        self,
        *,
        zone: str,
        zones: ActiveZones,
        loop_tokens: LoopTokens,
        clock: Clock,
        telemetry: Telemetry,
    ) -> None:
        self._zone = zone
        self._zones = zones
        self._loop_tokens = loop_tokens
        self._clock = clock
        self._telemetry = telemetry
        # When each event or failure was last reported, by its name and the other zone's.
        self._told_s: dict[tuple[str, str], float] = {}

    def zones_for(self, order: SelectOrder) -> Sequence[Zone]:
        """Return the children to ask.

        The list is empty if the request names a host, if no child is up, or if offers have no room
        for another layer of sealing.
        """
        return self._wanted(order, self._zones.active())

    def offline_for(self, order: SelectOrder) -> Sequence[Zone]:
        """Return the children that are down and would be asked if they were up."""
        return self._wanted(order, self._zones.offline())

    def _wanted(self, order: SelectOrder, among: Sequence[Zone]) -> Sequence[Zone]:
        request = order.request
        if request.destination or request.force_hosts or request.force_nodes:
            return ()
        home = home_of(order.group)
        zones = [one for one in among if home is None or one.zone_id == home]
        if not zones or host_naming_field(request) is not None:
            return ()
        if child_blob_bytes(order.blob_bytes) is None:
            self.tell("zone_too_deep", order.audience)
            return ()
        return zones

    def tell(self, name: str, parent: str) -> None:
        """Report an event about a parent, at most once a minute for each name and parent."""
        if self._is_due(name, parent):
            self._telemetry.event(name, parent=parent)

    def tell_failure(self, name: str, error: Exception, child: str) -> None:
        """Report the failure of a child, at most once a minute for each name and child."""
        if self._is_due(name, child):
            self._telemetry.failure(name, error, zone=child)

    def _is_due(self, name: str, zone: str) -> bool:
        now_s = self._clock.now_s()
        if now_s < self._told_s.get((name, zone), 0.0) + _TELL_AGAIN_S:
            return False
        self._told_s[name, zone] = now_s
        return True

    def below_of(self, order: SelectOrder) -> SelectOrder | None:
        """Return the order for the children.

        The result is None if no time is left for the children, or no room for their layer of
        sealing.
        """
        blob_bytes = child_blob_bytes(order.blob_bytes)
        count = len(order.request.instance_uuids)
        now_s = self._clock.now_s()
        left_s = order.deadline_s - now_s
        timeout_s = left_s - max(OWN_S + _OWN_EACH_S * count, _OWN_SHARE * left_s)
        if blob_bytes is None or timeout_s <= 0:
            return None
        return SelectOrder(
            request=portable_request(order.request),
            audience=self._zone,
            deadline_s=now_s + timeout_s,
            blob_bytes=blob_bytes,
            group=None if order.group is None else replace(order.group, zone_id=None),
            hold=order.hold,
            marks=(*order.marks, self._loop_tokens.new()),
        )


def portable_request(request: Request) -> Request:
    """Return the request to send to children.

    The ignored, retried and alternate hosts and the source cell are left out, because they mean
    nothing in another zone.
    """
    if not (request.ignore_hosts or request.retried or request.alternates or request.source_cell):
        return request
    return replace(request, ignore_hosts=(), retried=(), alternates=(), source_cell="")
