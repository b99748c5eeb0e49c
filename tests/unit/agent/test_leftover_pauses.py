"""Pauses in the search for leftovers: how long they last, and what they are forgotten for."""

from berth.agent.leftover_pauses import LeftoverPauses
from berth.domain.errors import DriverError, UnavailableError
from tests.unit.api.cloud import FakeClock

REFUSED = DriverError("cannot delete it")
AWAY = UnavailableError("away")


async def test_a_leftover_that_cannot_be_deleted_stops_no_other() -> None:
    """Only a control plane that is away concerns the whole host, and no other host."""
    clock = FakeClock()
    pauses = LeftoverPauses(clock, 600.0)
    pauses.note_error("one", "a", REFUSED)
    found = [pauses.is_due(host, key) for host in ("one", "two") for key in ("", "a", "b")]
    assert found == [True, False, True, True, True, True]
    pauses.note_error("one", "b", AWAY)
    assert not any(pauses.is_due("one", key) for key in ("", "a", "b", "c"))
    assert pauses.is_due("two", "a")


async def test_many_errors_at_once_are_one() -> None:
    """Those that began before the pause do not lengthen it; the next error doubles it."""
    clock = FakeClock()
    pauses = LeftoverPauses(clock, 600.0)
    for _ in range(100):
        pauses.note_error("one", "a", AWAY)
    await clock.sleep(600.0)
    assert pauses.is_due("one")
    pauses.note_error("one", "a", AWAY)
    await clock.sleep(1199.0)
    assert not pauses.is_due("one")
    pauses.note_success("one")
    assert pauses.is_due("one")


async def test_leftovers_that_are_gone_are_forgotten() -> None:
    """An agent that runs for years does not keep the names of all that have ever failed."""
    clock = FakeClock()
    pauses = LeftoverPauses(clock, 600.0)
    for number in range(20):
        pauses.note_error("one", f"{number}", REFUSED)
        await clock.sleep(3600.0)
    assert len(pauses._pauses) <= 2
