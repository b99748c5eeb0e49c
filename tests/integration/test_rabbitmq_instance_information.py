"""Instance information between processes: agents cast to schedulers over RabbitMQ."""

import asyncio
from dataclasses import replace
from random import Random

import pytest

from berth.adapters.bus.rabbitmq import RabbitBroker
from berth.adapters.system import SystemClock
from berth.agent.instance_casts import InstanceCaster
from berth.domain.compute.instance import Instance, Status
from berth.domain.ledger.write import Put
from berth.services.replica.follower import Follower
from berth.services.tracking import InstanceTracker, LedgerView, TrackingPace
from berth.testing.builders import make_flavor, make_instance, make_request
from tests.rabbit import riding, until
from tests.unit.services.wiring import Desk, TappedLedger, Told, open_desk, running

pytestmark = pytest.mark.rabbitmq

_SYNC_S = 0.2
_HOSTS = ("host-1", "host-2")


def _tracker(desk: Desk) -> InstanceTracker:
    view, pace = LedgerView(desk.ledger, desk.follower, desk.replica), TrackingPace(_SYNC_S)
    tracker = InstanceTracker(view, desk.policies, desk.clock, desk.told, pace, by_casts=True)
    desk.follower.subscribers.append(tracker)
    return tracker


async def _open(ledger: TappedLedger) -> tuple[Desk, InstanceTracker]:
    desk = Desk(ledger)
    desk.clock = SystemClock()  # type: ignore[assignment] # nothing here is virtual
    tracker = _tracker(desk)
    await desk.follower.start()
    return desk, tracker


def _on(desk: Desk, host: str) -> dict[str, str]:
    """Return the instances that a table has on a host, with their flavors."""
    hosts = desk.replica.hosts
    found = desk.replica.overlay.residents_on(hosts, host, hosts.version)
    return {uuid: one.flavor_id for uuid, one in found.items()}


async def test_two_schedulers_hear_what_an_agent_casts(broker: RabbitBroker) -> None:
    """Schedulers, new ones too, learn of created, resized and deleted instances by casts alone.

    Instances in the feed are ignored for hosts that report, so the casts are the only source.
    """
    ledger = (await open_desk()).ledger
    first, second = await _open(ledger), await _open(ledger)
    one = replace(make_instance(1, host="host-1"), task=None, status=Status.ACTIVE)
    async with riding(broker, Told()) as cast, riding(broker, Told()) as hear:
        teller = InstanceCaster(
            _HOSTS, cast, SystemClock(), Told(), Random(1), session="a", sync_interval_s=_SYNC_S
        )
        agent = Follower(ledger, SystemClock(), [teller])
        for number, (_, tracker) in enumerate((first, second)):
            tracker.serve(hear, f"scheduler-{number}")
        await hear.apply_changes()
        await agent.start()
        desks = [first[0], second[0]]
        loops = [agent.run, teller.run, teller.sync, *(desk.follower.run for desk in desks)]
        async with running(*loops):
            for _, tracker in (first, second):
                await until(lambda tracker=tracker: not tracker.unheard())  # type: ignore[misc]
            await ledger.write(Put(one))
            for desk in desks:
                await until(lambda desk=desk: _on(desk, "host-1") == {one.uuid: "1"})  # type: ignore[misc]
            found = await ledger.get(Instance, one.uuid)
            assert found is not None
            await ledger.write(Put(replace(found, flavor=make_flavor(2))))
            for desk in desks:
                await until(lambda desk=desk: _on(desk, "host-1") == {one.uuid: "2"})  # type: ignore[misc]
            third, tracker = await _open(ledger)
            tracker.serve(hear, "scheduler-3")
            async with running(third.follower.run):
                await until(lambda: not tracker.unheard())
                assert _on(third, "host-1") == {one.uuid: "2"}
                found = await ledger.get(Instance, one.uuid)
                assert found is not None
                gone = replace(found, host=None, node=None, status=Status.DELETED)
                await ledger.write(Put(gone))
                for desk in (*desks, third):
                    await until(lambda desk=desk: _on(desk, "host-1") == {})  # type: ignore[misc]
    assert not any(tracker.doubted for _, tracker in (first, second))


async def test_a_broken_connection_loses_no_list(broker: RabbitBroker) -> None:
    """A scheduler that missed a cast doubts the list after the next sync, and reloads it."""
    ledger = (await open_desk()).ledger
    desk, tracker = await _open(ledger)
    one = replace(make_instance(1, host="host-1"), task=None, status=Status.ACTIVE)
    async with riding(broker, Told()) as cast:
        teller = InstanceCaster(
            _HOSTS, cast, SystemClock(), Told(), Random(1), session="a", sync_interval_s=_SYNC_S
        )
        agent = Follower(ledger, SystemClock(), [teller])
        await agent.start()
        async with running(agent.run, teller.run, teller.sync, desk.follower.run):
            async with riding(broker, Told()) as hear:
                stop = tracker.serve(hear, "scheduler-1")
                await hear.apply_changes()
                await until(lambda: not tracker.unheard())
                stop()
            assert "host-1" in desk.replica.overlay.hosts
            version = await ledger.write(Put(one))
            await until(lambda: desk.replica.hosts.version >= version)
            assert _on(desk, "host-1") == {}
            async with riding(broker, Told()) as hear:
                tracker.serve(hear, "scheduler-1")
                await hear.apply_changes()
                await until(lambda: bool(tracker.doubted))
                await tracker.settle(make_request(5))
                assert _on(desk, "host-1") == {one.uuid: "1"}
                await asyncio.sleep(0)
