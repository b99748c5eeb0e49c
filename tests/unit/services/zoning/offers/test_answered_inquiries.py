"""Tests for the memory of answered inquiries."""

from berth.domain.zones.zone_orders import SelectOrder
from berth.services.zoning.offers.answered_inquiries import AnsweredInquiries
from berth.testing.virtual_time import VirtualClock
from tests.unit.services.zoning.zone_harness import request_of

LIFE_S = 2.0


def order_by(clock: VirtualClock, parent: str, *marks: bytes) -> SelectOrder:
    """Return a parent's order that is due in two seconds."""
    return SelectOrder(request_of(), parent, clock.now_s() + LIFE_S, marks=marks)


async def test_only_the_first_parent_gets_an_answer() -> None:
    """The first token counts, whatever follows; the first parent may repeat."""
    clock = VirtualClock()
    answered = AnsweredInquiries(clock)
    assert not answered.is_answered(order_by(clock, "left", b"a", b"b"))
    assert answered.is_answered(order_by(clock, "right", b"a", b"c"))
    assert not answered.is_answered(order_by(clock, "left", b"a", b"d"))
    assert answered.is_answered(order_by(clock, "right", b"a"))
    assert not answered.is_answered(order_by(clock, "right", b"e", b"a"))


async def test_an_order_without_tokens_is_new() -> None:
    """Nothing identifies such an inquiry."""
    clock = VirtualClock()
    answered = AnsweredInquiries(clock)
    assert not answered.is_answered(order_by(clock, "left"))
    assert not answered.is_answered(order_by(clock, "right"))


async def test_inquiries_are_forgotten_some_time_after_their_deadline() -> None:
    """A shorter way may have a later deadline, so the deadline itself is too early."""
    clock = VirtualClock()
    answered = AnsweredInquiries(clock)
    assert not answered.is_answered(order_by(clock, "left", b"a"))
    await clock.sleep(LIFE_S + 1.0)
    assert answered.is_answered(order_by(clock, "right", b"a"))
    await clock.sleep(LIFE_S + 11.0)
    assert not answered.is_answered(order_by(clock, "right", b"a"))


async def test_the_oldest_inquiries_are_forgotten_at_the_limit() -> None:
    """The memory is bounded."""
    clock = VirtualClock()
    answered = AnsweredInquiries(clock, kept_max=2)
    for mark in (b"a", b"b", b"c"):
        assert not answered.is_answered(order_by(clock, "left", mark))
    assert answered.is_answered(order_by(clock, "right", b"c"))
    assert answered.is_answered(order_by(clock, "right", b"b"))
    assert not answered.is_answered(order_by(clock, "right", b"a"))
