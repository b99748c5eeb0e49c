"""Instance casts: the messages that agents broadcast about the instances of their hosts."""

import asyncio
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from berth.agent.instance_casts import InstanceCaster
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.errors import UnavailableError
from berth.domain.ledger.change import Change, Snapshot
from berth.services.tracking.lists import list_digest
from berth.services.tracking.messages import (
    InstancesDeleted,
    InstancesSynced,
    InstancesUpdated,
    Message,
)
from berth.tables.host.feed import attributes_of, resident_of
from berth.tables.host.occupants import Resident
from berth.tables.host.resident_columns import Attributes
from berth.testing.builders import make_flavor, make_instance, make_migration, make_uuid
from berth.testing.virtual_time import VirtualClock
from tests.unit.services.wiring import Told, running

HOST = "host-1"
VM = make_uuid("instance", 1)
SYNC_S = 100.0


class Air:
    """A bus that keeps the broadcast messages and can be made unavailable."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.is_away = False

    async def fanout(self, command: object, args: Message) -> None:
        """Keep a message, or raise UnavailableError while the bus is unavailable."""
        if self.is_away:
            raise UnavailableError("the broker is away")
        self.sent.append(args)

    def take(self) -> list[Message]:
        """Return the broadcast messages and forget them."""
        sent, self.sent = self.sent, []
        return sent


class Rig:
    """A caster, and the feed that a test gives it."""

    def __init__(self, hosts: tuple[str, ...] = (HOST,)) -> None:
        self.air = Air()
        self.told = Told()
        self.teller = InstanceCaster(
            hosts,
            self.air,  # type: ignore[arg-type] # it casts, and nothing else
            VirtualClock(),
            self.told,
            Random(7),
            session="session",
            sync_interval_s=SYNC_S,
        )
        self.version = 0

    def load(self, *instances: Instance, version: int = 5) -> None:
        """Load a snapshot with these instances."""
        self.version = version
        self.teller.load(Snapshot(version, 0.0, instances=instances))

    def follow(self, *events: object) -> None:
        """Apply one version with these events."""
        self.version += 1
        self.teller.apply([Change(self.version, event) for event in events])  # type: ignore[arg-type]


def running_on(number: int = 1, host: str = HOST) -> Instance:
    """Return an instance that is active on a host."""
    return replace(make_instance(number, host=host), task=None, status=Status.ACTIVE)


def entry_of(instance: Instance) -> tuple[Resident, Attributes]:
    """Return what the digest of a list covers of an instance."""
    return resident_of(instance), attributes_of(instance)


@pytest.fixture
def rig() -> Rig:
    """Return a rig with one host."""
    return Rig()


async def test_all_is_told_at_the_start(rig: Rig) -> None:
    """Each host begins with one full message, which has only its own instances."""
    one, other = running_on(1), running_on(2, "host-2")
    rig.load(one, other)
    async with running(rig.teller.run):
        await asyncio.sleep(1)
    (message,) = rig.air.take()
    assert isinstance(message, InstancesUpdated)
    assert message.is_full
    assert [told.uuid for told in message.told] == [VM]
    head = message.head
    assert (head.host, head.session, head.sequence, head.version) == (HOST, "session", 1, 5)
    assert (head.count, head.digest) == (1, list_digest([entry_of(one)]))


async def test_what_becomes_of_an_instance_is_told_as_it_is(rig: Rig) -> None:
    """The end of a build, a resize and a delete are each broadcast; a stop is not."""
    rig.load()
    async with running(rig.teller.run):
        await asyncio.sleep(1)
        rig.air.take()
        building = replace(make_instance(1, host=HOST), task=Task.SPAWNING)
        steps = [
            building,
            running_on(1),
            replace(running_on(1), status=Status.SHUTOFF),
            replace(running_on(1), flavor=make_flavor(2)),
            replace(running_on(1), status=Status.DELETED, host=None),
        ]
        kinds: list[list[str]] = []
        for step in steps:
            rig.follow(step)
            await asyncio.sleep(1)
            kinds.append([type(message).__name__ for message in rig.air.take()])
    update, delete = ["InstancesUpdated"], ["InstancesDeleted"]
    assert kinds == [update, update, [], update, delete]


async def test_a_move_is_told_by_the_hosts_that_it_is_about(rig: Rig) -> None:
    """One message of the source adds the move, which holds the room, and removes the instance."""
    one, move = running_on(1), make_migration(1)
    rig.load(one)
    async with running(rig.teller.run):
        await asyncio.sleep(1)
        rig.air.take()
        rig.follow(replace(one, task=Task.RESIZE_MIGRATING), move)
        await asyncio.sleep(1)
        first = rig.air.take()
        arrived = replace(move, stage=type(move.stage).ARRIVED)
        rig.follow(replace(one, host="host-2", status=Status.RESIZED), arrived)
        await asyncio.sleep(1)
        (second,) = rig.air.take()
        rig.follow(replace(arrived, stage=type(move.stage).CONFIRMED))
        await asyncio.sleep(1)
        (third,) = rig.air.take()
    assert [type(message).__name__ for message in first] == ["InstancesUpdated"]
    assert first[0].head.count == 1
    assert isinstance(second, InstancesUpdated)
    assert [told.uuid for told in second.told] == [move.uuid]
    assert second.gone == (VM,)
    assert isinstance(third, InstancesDeleted)
    assert third.gone == (move.uuid,)
    assert third.head.count == 0


async def test_changes_that_come_together_are_one_message(rig: Rig) -> None:
    """Several versions are broadcast in one message with the digest of the last."""
    rig.load()
    async with running(rig.teller.run):
        await asyncio.sleep(1)
        rig.air.take()
        rig.follow(running_on(1))
        rig.follow(running_on(2))
        rig.follow(replace(running_on(1), host="host-2"))
        await asyncio.sleep(1)
    (message,) = rig.air.take()
    assert isinstance(message, InstancesUpdated)
    assert (message.gone, message.head.version, message.head.sequence) == ((VM,), 8, 2)
    assert message.head.digest == list_digest([entry_of(running_on(2))])


async def test_syncs_are_spread_over_hosts_and_time() -> None:
    """Each host syncs about once per interval, at times that differ between hosts."""
    names = tuple(f"host-{number}" for number in range(50))
    rig = Rig(names)
    rig.load()
    at_s: dict[str, list[float]] = {name: [] for name in names}
    loop = asyncio.get_running_loop()

    async def fanout(command: object, args: Message) -> None:
        if isinstance(args, InstancesSynced):
            at_s[args.head.host].append(loop.time())

    rig.air.fanout = fanout  # type: ignore[method-assign] # a test may listen
    async with running(rig.teller.run, rig.teller.sync):
        await asyncio.sleep(SYNC_S * 10)
    assert all(9 <= len(times) <= 12 for times in at_s.values())
    firsts = Counter(int(times[0] // 10) for times in at_s.values())
    assert len(firsts) >= 8
    gaps = {round(b - a, 3) for times in at_s.values() for a, b in pairwise(times)}
    assert min(gaps) >= SYNC_S * 0.9 - 1
    assert max(gaps) <= SYNC_S * 1.1 + 1
    assert len(gaps) > 50


async def test_a_broker_that_is_away_is_told_all_when_it_is_back(rig: Rig) -> None:
    """After an outage, the whole list is broadcast; the outage is reported once."""
    rig.load()
    async with running(rig.teller.run):
        await asyncio.sleep(1)
        rig.air.take()
        rig.air.is_away = True
        rig.follow(running_on(1))
        await asyncio.sleep(10)
        rig.follow(running_on(2))
        await asyncio.sleep(10)
        rig.air.is_away = False
        await asyncio.sleep(10)
    (message,) = rig.air.take()
    assert isinstance(message, InstancesUpdated)
    assert message.is_full
    assert (len(message.told), message.head.version) == (2, 7)
    assert rig.told.failed == ["instance_changes_not_sent"]


async def test_a_broker_that_is_reached_a_moment_later_is_no_news(rig: Rig) -> None:
    """An outage of half a second is not reported."""
    rig.air.is_away = True
    rig.load(running_on(1))
    async with running(rig.teller.run):
        await asyncio.sleep(0.5)
        rig.air.is_away = False
        await asyncio.sleep(2)
    assert len(rig.air.take()) == 1
    assert not rig.told.failed


async def test_a_host_with_too_many_instances_is_told_by_its_digest(rig: Rig) -> None:
    """A list that is too large for a message is broadcast as its digest."""
    many = [running_on(number) for number in range(1, 2001)]
    rig.load(*many)
    async with running(rig.teller.run):
        await asyncio.sleep(1)
    (message,) = rig.air.take()
    assert isinstance(message, InstancesSynced)
    assert message.uuids is None
    assert message.head.count == 2000
    assert message.head.digest == list_digest(map(entry_of, many))


async def test_a_feed_that_begins_anew_has_all_told_anew(rig: Rig) -> None:
    """After a new snapshot, the whole list is broadcast again."""
    rig.load(running_on(1))
    async with running(rig.teller.run):
        await asyncio.sleep(1)
        rig.air.take()
        rig.load(running_on(2), version=50)
        await asyncio.sleep(1)
    (message,) = rig.air.take()
    assert isinstance(message, InstancesUpdated)
    assert message.is_full
    assert [told.uuid for told in message.told] == [make_uuid("instance", 2)]
    assert (message.head.sequence, message.head.version) == (2, 50)
