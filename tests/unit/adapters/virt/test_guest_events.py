"""Hints go to all who follow, and wait for nobody."""

import gc

from berth.adapters.virt.guest_events import GuestEventHub
from berth.ports.virt import GuestEvent, Power


def event(number: int) -> GuestEvent:
    """Return a hint of its own."""
    return GuestEvent(str(number), Power.RUNNING)


async def test_everybody_hears_what_is_told_from_then_on() -> None:
    """In order, and nothing of before."""
    hints = GuestEventHub()
    hints.publish(event(0))
    first = hints.subscribe()
    hints.publish(event(1))
    second = hints.subscribe()
    hints.publish(event(2))
    assert [await anext(first), await anext(first)] == [event(1), event(2)]
    assert await anext(second) == event(2)


async def test_who_does_not_listen_loses_the_oldest() -> None:
    """Memory is bounded."""
    hints = GuestEventHub()
    following = hints.subscribe()
    for number in range(1_005):
        hints.publish(event(number))
    assert await anext(following) == event(5)


async def test_who_lets_go_is_forgotten() -> None:
    """Nothing is kept for somebody who is gone."""
    hints = GuestEventHub()
    following = hints.subscribe()
    del following
    gc.collect()
    assert hints._all is not None
    assert len(hints._all) == 0
    hints.publish(event(1))


def test_without_followers_nothing_is_kept() -> None:
    """There may be very many hosts that nobody follows."""
    hints = GuestEventHub()
    hints.publish(event(1))
    assert hints._all is None
