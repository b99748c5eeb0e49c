"""Tests for host messages that wait for the table or are dropped."""

import asyncio

from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Put, Remove
from berth.services.tracking.messages import FORMAT
from berth.testing.builders import make_request
from tests.unit.services.tracking.rig import HOST, SYNC_S, Rig, relabelled
from tests.unit.services.wiring import running


async def test_an_unreadable_message_may_come_before_the_feed(by_casts: Rig) -> None:
    """An unreadable message before its version is counted and does not cause a reload."""
    hosts = by_casts.desk.replica.hosts
    await by_casts.put(1)
    for message in await by_casts.told():
        by_casts.hear(relabelled(message, format=FORMAT + 1))
    await by_casts.follow()
    assert by_casts.tracker.unheard() == {HOST, "host-2"}
    assert by_casts.desk.replica.hosts is hosts
    assert by_casts.tally.sums["unreadable"] == 1


async def test_the_last_of_those_that_waited_says_whether_a_host_reports(by_casts: Rig) -> None:
    """The last of several waiting messages decides whether a host reports."""
    await by_casts.put(1)
    await by_casts.told()
    first, second = await by_casts.synced(), await by_casts.synced()
    by_casts.hear(relabelled(first, format=FORMAT + 1), second)
    await by_casts.follow()
    assert by_casts.tracker.unheard() == {"host-2"}
    assert by_casts.tracker._host_messages.keys() >= by_casts.desk.replica.overlay.hosts
    await by_casts.tracker.settle(make_request(3))
    assert len(by_casts.here()) == 1


async def test_a_host_that_the_ledger_does_not_have_costs_nothing(by_casts: Rig) -> None:
    """A message about an unknown host is counted and not kept."""
    sync = await by_casts.synced()
    for number in range(5):
        by_casts.hear(relabelled(sync, host=f"made-up-{number}", count=7))
    assert by_casts.tally.sums["unknown"] == 5
    assert by_casts.tracker._host_messages.keys() == {HOST}
    assert not by_casts.tracker.doubted


async def test_a_host_that_was_removed_is_heard_when_it_is_back(by_casts: Rig) -> None:
    """A removed host that returns is tracked again after its next sync."""
    desk = by_casts.desk
    row = next(iter(desk.replica.hosts.host_names.of_name(HOST)))
    there = desk.replica.hosts.host(row)
    await desk.ledger.write(Remove(Kind.HOST, there.uuid))
    await by_casts.follow()
    by_casts.hear(await by_casts.synced())
    assert HOST not in desk.replica.overlay.hosts
    await desk.ledger.write(Put(there))
    await by_casts.put(1)
    await by_casts.follow()
    by_casts.hear(await by_casts.synced())
    await by_casts.tracker.settle(make_request(3))
    assert HOST in desk.replica.overlay.hosts
    assert len(by_casts.here()) == 1


async def test_what_waits_in_vain_is_not_kept_for_ever(by_feed: Rig) -> None:
    """A waiting message about an unknown host is eventually dropped."""
    sync = await by_feed.synced()
    by_feed.hear(relabelled(sync, host="made-up", version=10**9))
    assert "made-up" in by_feed.tracker._host_messages
    async with running(by_feed.desk.follower.run, by_feed.tracker.run):
        await asyncio.sleep(SYNC_S * 5)
    assert "made-up" not in by_feed.tracker._host_messages
    assert not by_feed.tracker._waiting
