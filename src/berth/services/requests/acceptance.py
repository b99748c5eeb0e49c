"""Accepting: orders written down as pending, for whichever scheduler comes first."""

from collections.abc import Iterator
from dataclasses import replace

from berth.domain.compute.request import Request
from berth.domain.errors import InvalidInputError
from berth.domain.ledger.record import PendingRequest
from berth.domain.ledger.write import Add, Unit
from berth.services.requests.commands import PlaceOrder


def accepted(order: PlaceOrder, now_s: float, *, one_by_one: bool = False) -> Unit:
    """Return what keeps an order until a scheduler takes it up.

    Args:
        order: its request and its instances.
        now_s: Unix seconds.
        one_by_one: each instance is a request of its own, so that schedulers share them and each
            is placed, or refused, whatever becomes of the others (the single-shot create of D1).

    Raises:
        InvalidInputError: flavor or image hold a spec that cannot be read.
    """
    _ = order.request.needs  # raises on what a scheduler could not read
    requests = _each(order.request) if one_by_one else (order.request,)
    limits = () if order.within is None else (order.within,)
    return (
        *(Add(one) for one in order.instances),
        *(Add(PendingRequest(one, accepted_at_s=now_s)) for one in requests),
        *limits,
    )


def _each(request: Request) -> Iterator[Request]:
    """Return a request for each instance; repeated, they have the same ids again."""
    for index, uuid in enumerate(request.instance_uuids):
        request_id = request_id_of_one(request.request_id, index)
        yield replace(request, request_id=request_id, instance_uuids=(uuid,))


def request_id_of_one(request_id: str, index: int) -> str:
    """Return the id of the request for one instance of an order, where each has its own."""
    return f"{request_id}.{index + 1}"


def split_zone(text: str | None) -> tuple[str | None, str | None, str | None]:
    """Split `ZONE[:HOST[:NODE]]`; an empty zone means any."""
    if text is None:
        return None, None, None
    zone, _, rest = text.partition(":")
    host, _, node = rest.partition(":")
    if ":" in node:
        raise InvalidInputError("availability_zone", "must be ZONE, ZONE:HOST or ZONE:HOST:NODE")
    return zone or None, host or None, node or None
