"""Handlers for stored decisions, trial decisions and remaining capacity."""

from dataclasses import replace

import numpy as np

from berth.api.berth.handlers.decision_finding import (
    decisions_of_server,
    find_decision,
    may_see,
    shown,
)
from berth.api.berth.schemas.decisions import (
    CapacityAnswer,
    CapacityQuery,
    DecisionQuery,
    DecisionsAnswer,
    DecisionsQuery,
    HostCapacity,
    ZoneCapacityView,
)
from berth.api.compute.handlers.servers.server_orders import (
    check_flavor,
    image_called,
    read_order,
)
from berth.api.errors import HttpError
from berth.api.links import limit_of
from berth.api.routing import Answer, Call
from berth.domain.compute.decision import Decision
from berth.domain.compute.request import Request
from berth.domain.errors import InvalidInputError, NotFoundError
from berth.scheduling.plan.capacity import Capacity
from berth.services.servers.instances import CreateOrder
from berth.services.zoning.offers.tree_capacity import ChildCapacity, TreeCount

# The names of fields in this API, by their names in the service's errors.
_FIELDS = {"flavorRef": "flavor"}


async def show_capacity(call: Call) -> Answer:
    """Show how many more servers of a flavor fit in total and, for administrators, per host.

    In a tree of zones, the total includes the zones below this one.

    Raises:
        HttpError: 403 when a caller other than an administrator names a host.
        InvalidInputError: a parameter of the query is invalid, or names an unknown flavor, image or
            zone.
        UnavailableError: the ledger cannot be reached, or the project has too many such requests in
            progress.
    """
    query = call.query(CapacityQuery)
    # With `ZONE:HOST`, other callers could measure the free capacity of single hosts.
    if query.availability_zone and ":" in query.availability_zone and not call.identity.is_admin:
        raise HttpError(403, "Only administrators may name a host in availability_zone.")
    await call.parts.follower.catch_up()
    await check_flavor(call, query.flavor, "flavor")
    order = CreateOrder(
        request_id=call.request_id,
        name="capacity",
        flavor_id=query.flavor,
        project_id=call.identity.project_id,
        user_id=call.identity.user_id,
        image=await image_called(call, query.image, "image") if query.image else None,
        zone=query.availability_zone or None,
    )
    try:
        request = await call.parts.instances.request_of(order)
        found = await _counted(call, request)
    except InvalidInputError as error:
        raise InvalidInputError(_FIELDS.get(error.field, error.field), error.reason) from error
    return Answer(_answer(call, found, query.limit))


async def _counted(call: Call, request: Request) -> TreeCount:
    """Return the capacity of this deployment, and of its child zones if it has any."""
    zones = call.parts.zones
    if zones is None:
        return TreeCount(await call.parts.decision_service.capacity(request))
    with zones.inquiry_limit.admit(call.identity.project_id):
        return await zones.capacity.count(request)


def _answer(call: Call, found: TreeCount, limit: int | None) -> CapacityAnswer:
    answer = CapacityAnswer(total=found.total, is_partial=found.is_partial)
    # Tenants must not learn which hosts and zones exist; refusals hide them as well.
    if call.identity.is_admin:
        answer.hosts_total = len(found.here.rows)
        answer.hosts = _hosts(call, found.here, limit_of(call, limit))
        if found.children:
            answer.zones = [_zone(one) for one in found.children]
    return answer


def _zone(child: ChildCapacity) -> ZoneCapacityView:
    capacity = child.capacity
    if capacity is None:
        return ZoneCapacityView(zone=child.zone, count=None, is_partial=True)
    return ZoneCapacityView(zone=child.zone, count=capacity.count, is_partial=capacity.is_partial)


def _hosts(call: Call, capacity: Capacity, limit: int) -> list[HostCapacity]:
    table = call.parts.replica.hosts
    # `lexsort` takes the least significant key first: by capacity, then by name.
    order = np.lexsort((table.rank[capacity.rows], -capacity.counts))[:limit]
    found: list[HostCapacity] = []
    for index in order:
        name, node, _ = table.identity(int(capacity.rows[index]))
        count = int(capacity.counts[index])
        found.append(HostCapacity(host=name, node=node, count=count))
    return found


async def list_decisions(call: Call) -> Answer:
    """List the newest decisions: the project's own, or all for administrators.

    Raises:
        NotFoundError: the caller sees no such server.
    """
    query = call.query(DecisionsQuery)
    limit = limit_of(call, query.limit)
    if query.server is not None:
        about = await decisions_of_server(call, query.server)
        wanted = [one for one in about if query.verdict in {None, one.verdict}]
        return Answer(DecisionsAnswer(decisions=[shown(call, one) for one in wanted[:limit]]))
    # The ledger lists decisions by age alone. With a filter only the newest `list_max` decisions
    # are searched, so older ones are not found.
    is_all = call.identity.is_admin and query.verdict is None
    fetched = limit if is_all else call.parts.limits.list_max
    found = [
        decision
        for decision in await call.parts.ledger.all(Decision, limit=fetched)
        if may_see(call, decision) and query.verdict in {None, decision.verdict}
    ]
    return Answer(DecisionsAnswer(decisions=[shown(call, one) for one in found[:limit]]))


async def show_decision(call: Call) -> Answer:
    """Show a decision by its id, or the newest one about a server; tenants see no hosts in it.

    Raises:
        NotFoundError: there is no such decision that the caller may see.
        UnavailableError: a child zone that may have the decision does not answer.
    """
    query = call.query(DecisionQuery)
    request_id = call.key("request_id")
    decision = await find_decision(call, request_id, query.server)
    if decision is None:
        raise NotFoundError("decision", request_id)
    return Answer(shown(call, decision))


async def try_decision(call: Call) -> Answer:
    """Decide on a request as POST /servers would, without claiming or storing anything.

    For administrators, the decision also names the host that would have won without each weigher.

    Raises:
        InvalidInputError: a field is invalid; the error names the field and the reason.
        HttpError: 403 when the order contains a field that only administrators may use.
    """
    # Fields of all microversions are accepted, since this API has no microversions.
    asked = await read_order(call, None)
    await call.parts.follower.catch_up()
    try:
        request = await call.parts.instances.request_of(asked.order)
        decision = await _tried(call, request)
    except InvalidInputError as error:
        raise asked.named_as_sent(error) from error
    return Answer(shown(call, decision))


async def _tried(call: Call, request: Request) -> Decision:
    is_admin = call.identity.is_admin
    if call.parts.zones is None:
        decision_service = call.parts.decision_service
        return decision_service.try_out(request) if is_admin else decision_service.decide(request)
    with call.parts.zones.inquiry_limit.admit(call.identity.project_id):
        decision = await call.parts.zones.dry_runs.decide(request, explains=is_admin)
    # Tenants must not learn which zones there are.
    return decision if is_admin else replace(decision, zones_missing=())
