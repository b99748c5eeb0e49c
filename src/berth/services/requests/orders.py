"""Orders to place instances: the bus command, its service, and the writes that accept an order."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from berth.domain.compute.decision import Decision, Placement
from berth.domain.compute.flavor import check_received
from berth.domain.compute.instance import Instance
from berth.domain.compute.request import Request, order_item_id
from berth.domain.errors import InvalidInputError
from berth.domain.ledger.record import PendingRequest
from berth.domain.ledger.write import Add, QuotaCheck, Unit
from berth.domain.uuids import is_uuid
from berth.ports.bus import Command


@dataclass(frozen=True, slots=True)
class PlaceOrder:
    """Instances to be placed, with the request that rules read and the records to be stored.

    `accepted` means that the ledger already stores the instances and the request, which is pending.
    `within` is the quota check of the project; None means no limits. For an `offer`, a refusal
    stores only the decision, because the instances go elsewhere. `offered` is the placement that
    the offer was based on; the decision shows it when the host is the same. `told` is appended to
    the message of a refusal, and `told_operators` to its details for operators. An order that
    `may_leave` is not refused, because other zones may have room: NoValidHostError is raised, and
    nothing is written.
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


PLACE: Command[PlaceOrder, Decision] = Command(
    "scheduler", "place_order", PlaceOrder, Decision, by_one=True, batched=True
)
"""Place an order. The reply is the decision that the ledger has committed.

The ledger commits one batch at a time, so a second scheduler would add conflicts, but no speed. One
scheduler therefore places all orders until it stops (docs/adr/0034-placing-at-full-speed.md).
"""

PLACE_BEFORE: Command[PlaceOrder, Decision] = Command("scheduler", "place", PlaceOrder, Decision)
"""The same command as processes of the previous version send it."""


def check_order(order: PlaceOrder) -> None:
    """Check an order from the bus, where foreign processes may also publish.

    Drivers name files and domains after the uuids of instances, so any other text in their place
    could name a foreign file.

    Raises:
        InvalidInputError: an instance is not identified by a uuid, the instances are not those of
            the request, or a flavor or image is too large.
    """
    flavor, image = order.request.flavor, order.request.image
    check_received(flavor, image)
    for instance in order.instances:
        if instance.flavor != flavor or instance.image != image:
            check_received(instance.flavor, instance.image)
    uuids = tuple(instance.uuid for instance in order.instances)
    for one in uuids:
        if not is_uuid(one):
            raise InvalidInputError("instances.uuid", f"{one[:80]!r} must be a UUID")
    if sorted(uuids) != sorted(order.request.instance_uuids):
        raise InvalidInputError("instances", "must be the instances that the request names")


class Placer(Protocol):
    """Decides orders and claims capacity for their instances."""

    async def place(self, order: PlaceOrder) -> Decision:
        """Place all instances of an order, or refuse all, and return the recorded decision.

        Placing the same order again returns the first decision.

        Raises:
            InvalidInputError: the flavor or the image has a spec that cannot be parsed.
            ConflictError: an instance of the order has changed; read it again.
            QuotaExceededError: the project would exceed its quota.
            NoValidHostError: no host fits, and the order may leave this zone.
            UncertainFleetError: no host fits, but hosts that fell silent may be up.
            UnavailableError: the ledger cannot be reached, or this version does not support the
                operation; place the same order again.
        """
        ...


def acceptance_writes(order: PlaceOrder, now_s: float, *, one_by_one: bool = False) -> Unit:
    """Return the unit that stores an order until a scheduler places it.

    Args:
        order: the order; the unit adds its request and its instances.
        now_s: the current time in Unix seconds.
        one_by_one: give each instance a request of its own, so that schedulers share the work and
            each instance is placed or refused independently (the single-shot create).

    Raises:
        InvalidInputError: the flavor or the image has a spec that cannot be parsed.
    """
    _ = order.request.needs  # raises for specs that the scheduler could not parse
    requests = _each(order.request) if one_by_one else (order.request,)
    limits = () if order.within is None else (order.within,)
    return (
        # `Add` makes the whole unit a conflict when a record already exists, so a repeated request
        # cannot be accepted twice.
        *(Add(one) for one in order.instances),
        *(Add(PendingRequest(one, accepted_at_s=now_s)) for one in requests),
        *limits,
    )


def _each(request: Request) -> Iterator[Request]:
    """Yield a request for each instance; a repeated order yields the same ids again."""
    for index, uuid in enumerate(request.instance_uuids):
        request_id = order_item_id(request.request_id, index)
        yield replace(request, request_id=request_id, instance_uuids=(uuid,))


def split_zone(text: str | None) -> tuple[str | None, str | None, str | None]:
    """Split `ZONE[:HOST[:NODE]]` into zone, host and node; a missing or empty part is None.

    Raises:
        InvalidInputError: the text has more than three parts.
    """
    if text is None:
        return None, None, None
    zone, _, rest = text.partition(":")
    host, _, node = rest.partition(":")
    if ":" in node:
        reason = f"{text[:80]!r} must be ZONE, ZONE:HOST or ZONE:HOST:NODE"
        raise InvalidInputError("availability_zone", reason)
    return zone or None, host or None, node or None
