"""Commands that the parts of Berth send each other over the bus."""

from dataclasses import dataclass
from typing import Protocol

from berth.domain.compute.decision import Decision, Placement
from berth.domain.compute.instance import Instance
from berth.domain.compute.request import Request
from berth.domain.ledger.write import QuotaCheck
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


class Places(Protocol):
    """Whoever places orders."""

    async def place(self, order: PlaceOrder) -> Decision:
        """See `Placing.place`."""
        ...
