"""Commands that the parts of Berth send each other over the bus."""

from dataclasses import dataclass
from typing import Protocol

from berth.domain.decision import Decision
from berth.domain.instance import Instance
from berth.domain.request import Request
from berth.ports.bus import Command


@dataclass(frozen=True, slots=True)
class PlaceOrder:
    """Instances to be placed: the request that rules read and the records to be kept.

    `accepted` says that the ledger has both already, as a pending request.
    """

    request: Request
    instances: tuple[Instance, ...]
    accepted: bool = False


PLACE: Command[PlaceOrder, Decision] = Command("scheduler", "place", PlaceOrder, Decision)
"""Decide, claim and record; the reply is the decision that the ledger has committed."""


class Places(Protocol):
    """Whoever places orders."""

    async def place(self, order: PlaceOrder) -> Decision:
        """See `Placing.place`."""
        ...
