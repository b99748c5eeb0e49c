"""Orders to place instances: the bus command, its service, and the records of accepted orders."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from berth.domain.compute.decision import Decision, Placement
from berth.domain.compute.instance import Instance
from berth.domain.compute.request import Request
from berth.domain.errors import InvalidInputError
from berth.domain.ledger.record import PendingRequest
from berth.domain.ledger.write import Add, QuotaCheck, Unit
from berth.ports.bus import Command


@dataclass(frozen=True, slots=True)
class PlaceOrder:
    """Instances to be placed, with the request that rules read and the records to be stored.

    `accepted` means that the ledger has both already, as a pending request. `within` keeps the
    project within its quota; None means no limits. For an `offer`, a refusal stores only the
    decision, because the instances go elsewhere. `offered` is the placement that the offer was
    based on; the record shows it when the host is the same. `told` is added to the reason of a
    refusal, and `told_operators` to the details for operators. An order that `may_leave` is not
    refused, as other zones may have room: nothing is written, and NoValidHostError is raised.
    """

    request: Request
    instances: tuple[Instance, ...]
    accepted: bool = False
    within: QuotaCheck | None = None
    offer: bool = False
    told: str = ""
    told_operators: str = ""
    offered: Placement | None = None
    may_leave: bool = False


PLACE: Command[PlaceOrder, Decision] = Command("scheduler", "place", PlaceOrder, Decision)
"""Decide, claim and record; the reply is the decision that the ledger has committed."""


class Placer(Protocol):
    """Places orders."""

    async def place(self, order: PlaceOrder) -> Decision:
        """See `PlacementService.place`."""
        ...


def acceptance_writes(order: PlaceOrder, now_s: float, *, one_by_one: bool = False) -> Unit:
    """Return the unit that stores an order until a scheduler places it.

    Args:
        order: its request and its instances.
        now_s: Unix seconds.
        one_by_one: give each instance a request of its own, so that schedulers share the work and
            each instance is placed or refused independently (the single-shot create).

    Raises:
        InvalidInputError: the flavor or the image has a spec that cannot be parsed.
    """
    _ = order.request.needs  # raises now if the scheduler could not parse it
    requests = _each(order.request) if one_by_one else (order.request,)
    limits = () if order.within is None else (order.within,)
    return (
        # Add, not Put: a record that exists already makes the whole unit a conflict, so a repeated
        # request cannot be accepted twice.
        *(Add(one) for one in order.instances),
        *(Add(PendingRequest(one, accepted_at_s=now_s)) for one in requests),
        *limits,
    )


def _each(request: Request) -> Iterator[Request]:
    """Yield a request for each instance; a repeated order yields the same ids again."""
    for index, uuid in enumerate(request.instance_uuids):
        request_id = instance_request_id(request.request_id, index)
        yield replace(request, request_id=request_id, instance_uuids=(uuid,))


def instance_request_id(request_id: str, index: int) -> str:
    """Return the id of the request for one instance of an order, if each instance has its own."""
    return f"{request_id}.{index + 1}"


def split_zone(text: str | None) -> tuple[str | None, str | None, str | None]:
    """Split `ZONE[:HOST[:NODE]]`; an empty zone means any.

    Raises:
        InvalidInputError: the text has more than three parts.
    """
    if text is None:
        return None, None, None
    zone, _, rest = text.partition(":")
    host, _, node = rest.partition(":")
    if ":" in node:
        raise InvalidInputError("availability_zone", "must be ZONE, ZONE:HOST or ZONE:HOST:NODE")
    return zone or None, host or None, node or None
