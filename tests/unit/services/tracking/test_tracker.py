"""Tests for the tracker, which applies, checks and repairs the instance lists of agents."""

import asyncio
from dataclasses import replace
from random import Random

import pytest

from berth.domain.compute.decision import Verdict
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.migration import Place, Stage
from berth.domain.ledger.write import Guard, Put
from berth.services.tracking.lists import HostList, ReportedInstance, list_digest
from berth.services.tracking.messages import FORMAT, SYNC, InstancesSynced
from berth.tables.host.feed import attributes_of, resident_of
from berth.tables.host.resident_columns import NO_ATTRIBUTES, Attributes
from berth.testing.builders import (
    make_flavor,
    make_instance,
    make_migration,
    make_request,
    make_server_group,
    make_uuid,
)
from tests.unit.services.tracking.rig import HOST, SYNC_S, Rig, open_rig, relabelled
from tests.unit.services.wiring import order_of, running

VM = make_uuid("instance", 1)
OTHER = make_uuid("instance", 2)


async def test_a_cast_is_what_the_table_has_by_casts(by_casts: Rig) -> None:
    """By casts, an agent's message changes the table, and the feed does not."""
    await by_casts.put(1)
    await by_casts.follow()
    assert by_casts.here() == set()
    by_casts.hear(*await by_casts.told())
    assert by_casts.here() == {VM}
    await by_casts.put(1, host=None, status=Status.DELETED)
    await by_casts.follow()
    assert by_casts.here() == {VM}
    by_casts.hear(*await by_casts.told())
    assert by_casts.here() == set()
    assert by_casts.reads.reads == []


async def test_by_the_feed_a_cast_only_checks(by_feed: Rig) -> None:
    """By the feed, an agent's message only confirms the table."""
    await by_feed.put(1)
    message = await by_feed.told()
    await by_feed.follow()
    assert by_feed.here() == {VM}
    by_feed.hear(*message)
    assert by_feed.tally.sums == {"agreed": 2}
    assert not by_feed.tracker.is_in_doubt


@pytest.mark.parametrize("by_casts", [False, True])
async def test_a_message_waits_for_the_feed(by_casts: bool) -> None:
    """A message of a later version waits until the table reaches that version."""
    rig = await open_rig(by_casts=by_casts)
    await rig.put(1)
    rig.hear(*await rig.told())
    assert rig.here() == set()
    assert not rig.tracker.doubted
    await rig.follow()
    assert rig.here() == {VM}
    assert rig.tally.sums == {"agreed": 2}


async def test_a_message_that_comes_twice_does_no_harm(by_casts: Rig) -> None:
    """A repeated message is ignored and counted."""
    await by_casts.put(1)
    await by_casts.follow()
    sent = await by_casts.told()
    by_casts.hear(*sent, *sent)
    assert by_casts.here() == {VM}
    assert by_casts.tally.sums == {"agreed": 2, "repeated": 1}


async def test_a_lost_message_shows_in_the_next_digest(by_casts: Rig) -> None:
    """A lost message puts the host in doubt, and the next request reloads it."""
    await by_casts.put(1)
    await by_casts.told()
    await by_casts.put(2)
    await by_casts.follow()
    by_casts.hear(*await by_casts.told())
    assert by_casts.tracker.doubted == {HOST}
    assert by_casts.tally.sums["lost"] == 1
    settled = await by_casts.tracker.settle(make_request(3))
    assert settled.left_out == frozenset()
    assert by_casts.here() == {VM, OTHER}
    assert by_casts.reads.reads == [HOST]
    assert by_casts.desk.told.events == ["instances_reloaded"]


async def test_a_lost_delete_is_found_by_the_sync(by_casts: Rig) -> None:
    """A lost delete is found by the next sync."""
    await by_casts.put(1)
    await by_casts.follow()
    by_casts.hear(*await by_casts.told())
    await by_casts.put(1, host=None, status=Status.SHELVED_OFFLOADED)
    await by_casts.told()
    await by_casts.follow()
    by_casts.hear(await by_casts.synced())
    assert by_casts.tracker.doubted == {HOST}
    await by_casts.tracker.settle(make_request(3))
    assert by_casts.here() == set()


async def test_messages_out_of_order_end_right(by_casts: Rig) -> None:
    """Messages out of order put the host in doubt, and a reload repairs it."""
    await by_casts.put(1)
    first = await by_casts.told()
    await by_casts.put(1, flavor=make_flavor(2))
    await by_casts.put(2)
    await by_casts.follow()
    by_casts.hear(*await by_casts.told())
    by_casts.hear(*first)
    assert by_casts.tally.sums["repeated"] == 1
    await by_casts.tracker.settle(make_request(3))
    assert by_casts.here() == {VM, OTHER}
    found = by_casts.desk.replica.hosts.occupants.by_uuid.get(VM)
    assert found is not None
    assert found.resident.flavor_id == "2"


async def test_a_resize_that_was_not_told_is_seen(by_casts: Rig) -> None:
    """A resize that was not reported changes the digest and puts the host in doubt."""
    await by_casts.put(1)
    await by_casts.follow()
    by_casts.hear(*await by_casts.told())
    await by_casts.put(1, flavor=make_flavor(2))
    await by_casts.told()
    await by_casts.follow()
    sync = await by_casts.synced()
    assert isinstance(sync, InstancesSynced)
    assert sync.uuids == (VM,)
    by_casts.hear(sync)
    assert by_casts.tracker.doubted == {HOST}


async def test_by_the_feed_a_table_that_is_wrong_is_put_right(by_feed: Rig) -> None:
    """By the feed, a wrong table is reloaded and the event is logged."""
    await by_feed.put(1)
    await by_feed.follow()
    by_feed.hear(*await by_feed.told())
    by_feed.desk.replica.hosts.remove_instance(VM)
    by_feed.hear(await by_feed.synced())
    assert by_feed.tracker.doubted == {HOST}
    async with running(by_feed.tracker.run):
        await asyncio.sleep(3)
    assert by_feed.here() == {VM}
    assert by_feed.tracker.doubted == frozenset()
    assert by_feed.tally.sums["wrong"] == 1
    assert "instances_reloaded" in by_feed.desk.told.events


async def test_by_the_feed_a_change_explains_a_difference(by_feed: Rig) -> None:
    """By the feed, an old message causes no reload once the next one has come."""
    await by_feed.put(1)
    first = await by_feed.told()
    await by_feed.put(2)
    await by_feed.follow()
    by_feed.hear(*first)
    assert by_feed.tracker.doubted == {HOST}
    by_feed.hear(*await by_feed.told())
    assert not by_feed.tracker.doubted
    assert by_feed.reads.reads == []


async def test_a_host_that_nobody_can_read_is_left_out_with_the_reason(by_casts: Rig) -> None:
    """A host in doubt that cannot be read is left out, and the refusal says why."""
    for number in (1, 2):
        await by_casts.put(number)
        await by_casts.told()
    await by_casts.put(3)
    await by_casts.follow()
    by_casts.hear(*await by_casts.told())
    by_casts.reads.is_away = True
    assert (await by_casts.tracker.settle(make_request(4))).left_out == {HOST}
    decision = await by_casts.desk.placer.place(order_of(make_request(4)))
    assert decision.placements[0].host == "host-2"
    forced = replace(make_request(5), ignore_hosts=("host-2",))
    refused = await by_casts.desk.placer.place(order_of(forced))
    assert refused.verdict is Verdict.REFUSED
    assert refused.refusal is not None
    assert "InstanceInformationFilter" in str(refused.refusal)
    assert by_casts.tracker.doubted == {HOST}
    by_casts.reads.is_away = False
    decision = await by_casts.desk.placer.place(
        order_of(replace(make_request(6), ignore_hosts=("host-2",)))
    )
    assert decision.verdict is Verdict.PLACED


async def test_a_host_whose_agent_never_reported_is_read_for_each_request() -> None:
    """The scheduler catches up with the feed for a host whose agent has not reported."""
    rig = await open_rig(by_casts=True)
    assert rig.tracker.unheard() == {"host-2"}
    await rig.put(1, host="host-2")
    assert rig.here("host-2") == set()
    await rig.tracker.settle(make_request(3))
    assert rig.here("host-2") == {VM}
    record = make_instance(1, host="host-2")
    here = replace(resident_of(record), building=False)
    listed = list_digest([(here, attributes_of(record))])
    rig.hear(relabelled(await rig.synced(), host="host-2", sequence=1, count=1, digest=listed))
    assert rig.tracker.unheard() == frozenset()
    await rig.put(2, host="host-2")
    await rig.tracker.settle(make_request(3))
    await rig.follow()
    assert OTHER not in rig.here("host-2")


@pytest.mark.parametrize("spoken", [0, FORMAT + 1])
async def test_a_format_that_is_not_known_counts_as_no_report(by_casts: Rig, spoken: int) -> None:
    """An agent with an unknown message format counts as not reporting."""
    await by_casts.put(1)
    await by_casts.follow()
    assert by_casts.here() == set()
    by_casts.hear(relabelled(await by_casts.synced(), format=spoken))
    assert by_casts.tracker.unheard() == {HOST, "host-2"}
    await by_casts.tracker.settle(make_request(3))
    assert by_casts.here() == {VM}
    await by_casts.put(2)
    await by_casts.follow()
    assert by_casts.here() == {VM, OTHER}
    by_casts.hear(await by_casts.synced())
    assert by_casts.tracker.unheard() == {"host-2"}


async def test_an_agent_that_falls_silent_does_not_report_any_more(by_casts: Rig) -> None:
    """An agent that is silent for several intervals counts as not reporting."""
    async with running(by_casts.desk.follower.run, by_casts.tracker.run):
        await asyncio.sleep(SYNC_S * 2)
        assert by_casts.tracker.unheard() == {"host-2"}
        await asyncio.sleep(SYNC_S * 3)
        assert by_casts.tracker.unheard() == {HOST, "host-2"}
        await by_casts.put(1)
        await asyncio.sleep(5)
        assert by_casts.here() == {VM}


async def test_own_claims_are_known_before_any_agent_tells(by_casts: Rig) -> None:
    """Own claims are in the table before an agent reports them, and older digests agree."""
    sync = await by_casts.synced()
    request = replace(make_request(1), ignore_hosts=("host-2",))
    await by_casts.desk.placer.place(order_of(request))
    assert by_casts.here() == {VM}
    await by_casts.follow()
    assert by_casts.desk.replica.held == 0
    assert by_casts.here() == {VM}
    by_casts.hear(sync)
    assert by_casts.here() == {VM}
    assert not by_casts.tracker.doubted
    await by_casts.agent.catch_up()
    by_casts.hear(*await by_casts.told())
    assert by_casts.here() == {VM}
    assert not by_casts.tracker.doubted


async def test_a_move_is_told_by_both_sides(by_casts: Rig) -> None:
    """A moving instance is on its source until it arrives; afterwards its move is."""
    one = await by_casts.put(1)
    base = make_migration(1)
    there = Place("host-2", "host-2", make_flavor(2))
    move = replace(base, instance_uuid=VM, source=Place(HOST, HOST, one.flavor), destination=there)
    found = await by_casts.desk.ledger.get(Instance, VM)
    assert found is not None
    moving = replace(found, task=Task.RESIZE_MIGRATING, migration_uuid=move.uuid)
    await by_casts.desk.ledger.write(Put(moving), Put(move))
    await by_casts.agent.catch_up()
    await by_casts.follow()
    by_casts.hear(*await by_casts.told())
    assert by_casts.here() == {VM}
    moved = replace(moving, host="host-2", node="host-2", revision=moving.revision + 1)
    await by_casts.desk.ledger.write(Put(moved), Put(replace(move, stage=Stage.ARRIVED)))
    await by_casts.agent.catch_up()
    await by_casts.follow()
    by_casts.hear(*await by_casts.told())
    assert by_casts.here() == {move.uuid}
    assert not by_casts.tracker.doubted


async def test_a_host_that_lost_an_instance_to_another_is_in_doubt(by_casts: Rig) -> None:
    """A host is in doubt when one of its instances appears on another host."""
    await by_casts.put(1)
    await by_casts.follow()
    by_casts.hear(*await by_casts.told())
    found = await by_casts.desk.ledger.get(Instance, VM)
    assert found is not None
    await by_casts.put(1, host="host-2")
    await by_casts.follow()
    (delete,) = await by_casts.told()
    # host-2 does not report, so the feed has already moved the instance there.
    assert by_casts.here() == set()
    assert by_casts.tracker.doubted == {HOST}
    by_casts.hear(delete)
    assert not by_casts.tracker.doubted


async def test_members_of_a_group_are_read_before_one_is_placed(by_casts: Rig) -> None:
    """The members of a group are read before another member is placed."""
    group = make_server_group(1)
    await by_casts.desk.ledger.write(Put(group))
    await by_casts.put(1, group_uuid=group.uuid, task=Task.SPAWNING)
    await by_casts.follow()
    assert by_casts.here() == set()
    request = replace(make_request(5), group_uuid=group.uuid)
    decision = await by_casts.desk.placer.place(order_of(request))
    assert decision.placements[0].host == "host-2"
    assert by_casts.here() == {VM}


async def test_a_guard_is_as_old_as_what_was_read(by_casts: Rig) -> None:
    """A decision about a group is dated to the version at which the members were read."""
    group = make_server_group(1)
    await by_casts.desk.ledger.write(Put(group))
    await by_casts.follow()
    request = replace(make_request(5), group_uuid=group.uuid)
    settled = await by_casts.tracker.settle(request)
    seen = await by_casts.desk.ledger.version()
    assert settled.seen == seen
    await by_casts.desk.ledger.write(Guard("another", seen), Put(make_flavor(7)))
    await by_casts.follow()
    decision = by_casts.desk.decision_service.decide(request)
    assert decision.table_version == seen + 1
    assert by_casts.tracker.dated(decision, settled).table_version == seen


async def test_an_agent_that_starts_anew_is_believed(by_casts: Rig) -> None:
    """A new session of an agent is accepted, and messages of the old one are ignored."""
    await by_casts.put(1)
    late = await by_casts.told()
    await by_casts.put(1, host=None, status=Status.DELETED)
    await by_casts.start_agent()
    await by_casts.follow()
    by_casts.hear(*await by_casts.told())
    assert by_casts.here() == set()
    by_casts.hear(*late)
    assert by_casts.here() == set()
    assert not by_casts.tracker.doubted


async def test_too_many_messages_that_wait_are_a_doubt(by_feed: Rig) -> None:
    """The number of waiting messages is limited, and beyond it the host is in doubt."""
    sync = await by_feed.synced()
    for number in range(40):
        by_feed.hear(relabelled(sync, version=1000 + number, sequence=10 + number))
    received = by_feed.tracker._host_messages[HOST]
    assert len(received._waiting) < 20
    assert by_feed.tracker.doubted == {HOST}


async def test_one_host_at_a_time_is_read_and_others_beside_it(by_casts: Rig) -> None:
    """Simultaneous requests share one reload of a host."""
    await by_casts.put(1)
    await by_casts.told()
    await by_casts.put(2)
    await by_casts.follow()
    by_casts.hear(*await by_casts.told())
    both = (by_casts.tracker.settle(make_request(n)) for n in (5, 6))
    await asyncio.gather(*both)
    assert by_casts.reads.reads == [HOST]


async def test_a_request_that_reads_no_instances_waits_for_nothing(by_casts: Rig) -> None:
    """A request whose rules read no instances causes no reload."""
    await by_casts.put(1)
    await by_casts.told()
    await by_casts.put(2)
    await by_casts.follow()
    by_casts.hear(*await by_casts.told())
    policy = by_casts.desk.policies.policy
    plain = replace(policy, filters=policy.filters[:1], weighers=())

    class Plain:
        policy = plain

    by_casts.tracker._policies = Plain()
    assert (await by_casts.tracker.settle(make_request(5))).left_out == frozenset()
    assert by_casts.reads.reads == []
    assert by_casts.tracker.doubted == {HOST}


async def test_casts_come_by_the_bus(by_feed: Rig) -> None:
    """The tracker serves the bus under its own name until it is stopped."""
    stop = by_feed.tracker.serve(by_feed.desk.bus, "scheduler-1")
    message = await by_feed.synced()
    assert isinstance(message, InstancesSynced)
    await by_feed.desk.bus.fanout(SYNC, message)
    await asyncio.sleep(1)
    assert by_feed.tally.sums == {"agreed": 2}
    stop()
    again = relabelled(message, sequence=9)
    assert isinstance(again, InstancesSynced)
    await by_feed.desk.bus.fanout(SYNC, again)
    await asyncio.sleep(1)
    assert by_feed.tally.sums == {"agreed": 2}
    assert not by_feed.desk.bus.serves(SYNC)


def test_marks_are_of_all_that_rules_read() -> None:
    """The digest changes with every field of an instance that rules read."""
    one = resident_of(make_instance(1, host=HOST))
    others = [
        replace(one, uuid=OTHER),
        replace(one, group_uuid="group"),
        replace(one, building=not one.building),
        replace(one, flavor_id="9"),
        replace(one, image_properties={"os": "linux"}),
        replace(one, is_move=True),
    ]
    known = Attributes("p", "u", "i", "n", {"a": "1", "b": "2"}, 5.0)
    more = [
        replace(known, project_id="q"),
        replace(known, user_id="v"),
        replace(known, image_id="j"),
        replace(known, name="m"),
        replace(known, metadata={"a": "2", "b": "1"}),
        replace(known, launched_at_s=6.0),
    ]
    entries = [(each, known) for each in (one, *others)] + [(one, each) for each in more]
    assert len({list_digest([entry]) for entry in entries}) == len(entries)
    backwards = replace(known, metadata={"b": "2", "a": "1"})
    assert list_digest([(one, backwards)]) == list_digest([(one, known)])
    rng, listed = Random(1), HostList()
    for each in rng.sample([one, others[0]], 2):
        listed.put(ReportedInstance(each, HOST))
    assert listed.digest == list_digest([(others[0], NO_ATTRIBUTES), (one, NO_ATTRIBUTES)])
    listed.put(ReportedInstance(others[3], HOST))
    listed.remove(OTHER)
    assert listed.digest == list_digest([(others[3], NO_ATTRIBUTES)])
