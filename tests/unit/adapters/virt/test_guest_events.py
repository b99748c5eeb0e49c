"""Guest events reach all subscribers and never block the publisher."""

import gc

from berth.adapters.virt.guest_events import GuestEventHub
from berth.ports.virt import GuestEvent, Power


def event(number: int) -> GuestEvent:
    """Return a guest event that differs by its number."""
    return GuestEvent(str(number), Power.RUNNING)


async def test_everybody_hears_what_is_told_from_then_on() -> None:
    """A subscriber gets the events after its subscription, in order."""
    hints = GuestEventHub()
    hints.publish(event(0))
    first = hints.subscribe()
    hints.publish(event(1))
    second = hints.subscribe()
    hints.publish(event(2))
    assert [await anext(first), await anext(first)] == [event(1), event(2)]
    assert await anext(second) == event(2)


async def test_who_does_not_listen_loses_the_oldest() -> None:
    """A subscriber that does not read loses the oldest events, so memory is bounded."""
    hints = GuestEventHub()
    following = hints.subscribe()
    for number in range(1_005):
        hints.publish(event(number))
    assert await anext(following) == event(5)


async def test_who_lets_go_is_forgotten() -> None:
    """A subscription that was garbage-collected is removed."""
    hints = GuestEventHub()
    following = hints.subscribe()
    del following
    gc.collect()
    assert hints._all is not None
    assert len(hints._all) == 0
    hints.publish(event(1))


def test_without_followers_nothing_is_kept() -> None:
    """Without subscribers, publishing allocates nothing, as there may be very many hosts."""
    hints = GuestEventHub()
    hints.publish(event(1))
    assert hints._all is None
