"""Commands that the parts of Berth send each other over the bus."""

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
    """Instances to be placed: the request that rules read and the records to be kept.

    `accepted` says that the ledger has both already, as a pending request. `within` keeps what is
    made within the limits of its project, unless it has none. Of an order for an `offer` nothing
    is kept when it is refused, but the decision: its instances go elsewhere. `offered` is how that
    offer was decided: what the record tells of the choice, when the host is the same. `told` is
    said beside the reason of a refusal, `told_operators` to operators alone. One that `may_leave`
    is not refused, as there may be room in other zones: nothing is written, and NoValidHostError
    raised.
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
    """Whoever places orders."""

    async def place(self, order: PlaceOrder) -> Decision:
        """See `Placing.place`."""
        ...


def acceptance_writes(order: PlaceOrder, now_s: float, *, one_by_one: bool = False) -> Unit:
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
        request_id = instance_request_id(request.request_id, index)
        yield replace(request, request_id=request_id, instance_uuids=(uuid,))


def instance_request_id(request_id: str, index: int) -> str:
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
