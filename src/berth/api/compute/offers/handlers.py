"""Handlers for requests of parent zones to select offers, build on them and release them."""

from berth.api.assertions import zone_parts
from berth.api.compute.offers.orders import build_order, release_order, select_order
from berth.api.routing import Answer, Call
from berth.services.zoning.messages.zone_commands import BUILD, RELEASE, SELECT
from berth.services.zoning.messages.zone_messages import (
    CapacityMessage,
    KeptMessage,
    OffersMessage,
    OutcomesMessage,
)

# The API waits this many seconds beyond the deadline of the offers. Otherwise offers that the
# scheduler returns right at the deadline would arrive too late.
_SLACK_S = 0.5


async def select_offers(call: Call) -> Answer:
    """Return sealed offers for a parent's request, best first; their capacity is held.

    Raises:
        HttpError: 403 when the caller is not a parent, or the order is not for the tenant of its
            assertion; 501 when this deployment is not a zone.
        InvalidInputError: a field is invalid; the error names it.
    """
    # This only checks that the deployment is a zone, before the body is decoded.
    zone_parts(call.parts)
    order = await select_order(call)
    timeout_s = order.deadline_s - call.parts.clock.now_s() + _SLACK_S
    offers = await call.parts.bus.call(SELECT, order, timeout_s=timeout_s)
    return Answer(OffersMessage.of(offers))


async def count_capacity(call: Call) -> Answer:
    """Return how many instances of a parent's request fit in this zone and the zones below it.

    Raises:
        HttpError: 403 when the caller is not a parent, or the order is not for the tenant of its
            assertion; 501 when this deployment is not a zone.
        InvalidInputError: a field, or a spec of the flavor or the image, is invalid; the error
            names it.
    """
    parts = zone_parts(call.parts)
    order = await select_order(call)
    await call.parts.follower.catch_up()
    return Answer(CapacityMessage.of(await parts.capacity.count_for_parent(order)))


async def build_by_offers(call: Call) -> Answer:
    """Build a parent's instances on the offers in the request; return the outcome of each.

    Raises:
        HttpError: 403 when the caller is not a parent, or the order is not for the tenant of its
            assertion; 501 when this deployment is not a zone.
        InvalidInputError: a field is invalid; the error names it.
    """
    timeout_s = zone_parts(call.parts).build_timeout_s
    order = await build_order(call)
    built = await call.parts.bus.call(BUILD, order, timeout_s=timeout_s)
    reservation_id = order.items[0].instance.reservation_id
    return Answer(OutcomesMessage.of(reservation_id, built.outcomes))


async def release_offers(call: Call) -> Answer:
    """Release offers and withdraw instances; return the uuids of the instances that stay.

    Raises:
        HttpError: 403 when the caller is not a parent, or the order names instances although its
            assertion names no project; 501 when this deployment is not a zone.
        InvalidInputError: a field is invalid; the error names it.
    """
    timeout_s = zone_parts(call.parts).build_timeout_s
    released = await call.parts.bus.call(RELEASE, release_order(call), timeout_s=timeout_s)
    return Answer(KeptMessage(tuple(sorted(released.kept))))
