"""Capacity: how many more servers of a flavor fit now."""

import numpy as np

from berth.api.berth.schemas.decisions import CapacityAnswer, CapacityQuery, HostCapacity
from berth.api.codec import UNSET, UnsetType
from berth.api.compute.handlers.servers.server_orders import image_called
from berth.api.errors import HttpError
from berth.api.links import limit_of
from berth.api.routing import Answer, Call
from berth.domain.errors import InvalidInputError
from berth.scheduling.plan.capacity import Capacity
from berth.services.servers.instances import CreateOrder

_FIELDS = {"flavorRef": "flavor"}


async def show_capacity(call: Call) -> Answer:
    """Count how many more servers of a flavor fit, each host for itself."""
    query = call.query(CapacityQuery)
    if query.availability_zone and ":" in query.availability_zone and not call.identity.is_admin:
        raise HttpError(403, "Only administrators may name a host.")
    await call.parts.follower.catch_up()
    order = CreateOrder(
        request_id=call.request_id,
        name="capacity",
        flavor_id=query.flavor,
        project_id=call.identity.project_id,
        user_id=call.identity.user_id,
        image=image_called(call, query.image, "image") if query.image else None,
        zone=query.availability_zone or None,
    )
    try:
        request = await call.parts.instances.request_of(order)
        capacity = call.parts.decision_service.capacity(request)
    except InvalidInputError as error:
        raise InvalidInputError(_FIELDS.get(error.field, error.field), error.reason) from error
    hosts: list[HostCapacity] | UnsetType = UNSET
    if call.identity.is_admin:
        hosts = _hosts(call, capacity, limit_of(call, query.limit))
    answer = CapacityAnswer(total=capacity.total, hosts_total=len(capacity.rows), hosts=hosts)
    return Answer(answer)


def _hosts(call: Call, capacity: Capacity, limit: int) -> list[HostCapacity]:
    table = call.parts.replica.hosts
    order = np.lexsort((table.rank[capacity.rows], -capacity.counts))[:limit]
    found: list[HostCapacity] = []
    for index in order:
        name, node, _ = table.identity(int(capacity.rows[index]))
        count = int(capacity.counts[index])
        found.append(HostCapacity(host=name, node=node, count=count))
    return found
