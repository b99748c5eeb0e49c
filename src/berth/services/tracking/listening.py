"""Listening: the casts of agents, as a scheduler serves them."""

from collections.abc import Callable

from berth.ports.bus import Bus
from berth.services.tracking.messages import DELETE, SYNC, UPDATE, Message


def listen(bus: Bus, name: str, take: Callable[[Message], None]) -> Callable[[], None]:
    """Have what agents cast taken in; return what ends that.

    Args:
        bus: from the agents.
        name: of this scheduler; with one there is no queue that schedulers share.
        take: called with each message; must not block.
    """

    async def hear(message: Message) -> None:
        take(message)

    stops = [
        bus.serve(UPDATE, hear, server=name),
        bus.serve(DELETE, hear, server=name),
        bus.serve(SYNC, hear, server=name),
    ]

    def stop() -> None:
        for one in stops:
            one()

    return stop
