"""Tests for the readiness and the gauges of a process."""

from dataclasses import replace
from random import Random

import pytest

from berth.adapters.ledger import MemoryLedger
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.lifecycle import STATUSES_SHOWN
from berth.domain.errors import UnavailableError
from berth.domain.ledger.record import PendingRequest
from berth.domain.ledger.write import Add, Put
from berth.ports.measures import GAUGES, KEYSTONE_UP
from berth.services.decisions.decisions import DecisionService
from berth.services.replica.follower import Follower
from berth.services.telemetry.capacity_gauges import CapacityGauges, CapacityRules
from berth.services.telemetry.health import (
    BrokerHealth,
    HostTableHealth,
    ProcessHealth,
    SessionHealth,
)
from berth.services.tracking import InstanceTracker, LedgerView
from berth.services.zoning.children.zone_watch import WatchSettings, ZoneWatch
from berth.testing.builders import make_flavor, make_instance, make_request
from berth.testing.virtual_time import run_virtually
from tests.unit.services.wiring import Desk, open_desk, order_of
from tests.unit.services.zoning.zone_harness import InProcessZones, ZoneServices


class Away(MemoryLedger):
    """A ledger that cannot be reached."""

    async def version(self) -> int:
        """Raise UnavailableError."""
        raise UnavailableError("postgresql://berth:hunter2@db is away")


class Full(MemoryLedger):
    """A ledger that answers, but stores no writes."""

    async def write_fault(self) -> str | None:
        """Return why."""
        return "the disk of the ledger is full"


class Written:
    """A policy file with or without an error."""

    def __init__(self, last_error: str | None = None) -> None:
        self.last_error = last_error


def vitals_of(desk: Desk, policy: Written | None = None) -> ProcessHealth:
    """Return the health of a desk's process."""
    fleet = HostTableHealth(desk.replica, policy or Written(), lambda: 60.0)
    return ProcessHealth(
        ledger=desk.ledger,
        follower=desk.follower,
        clock=desk.clock,
        fleet=fleet,
        broker=BrokerHealth(lambda: True, is_needed=True),
    )


async def gauges(health: ProcessHealth) -> dict[str, float]:
    """Return the gauges by name, without the prefix `berth_`, and labels."""
    return {
        " ".join([one.measure.name.removeprefix("berth_"), *one.labels]): one.value
        for one in await health.read()
    }


def test_a_process_is_ready_while_it_follows() -> None:
    """A process is ready while its replica has caught up recently."""

    async def main() -> None:
        desk = await open_desk()
        health = vitals_of(desk)
        assert await health.problems() == []
        await desk.clock.sleep(10.5)
        assert await health.problems() == ["the replica has not caught up for 10 s"]
        await desk.follower.catch_up()
        assert await health.problems() == []

    run_virtually(main)


def test_a_process_that_cannot_write_is_not_ready() -> None:
    """A ledger that answers but stores no writes is reported with the reason, and is not up."""

    async def main() -> None:
        desk = await open_desk()
        health = ProcessHealth(ledger=Full(), follower=desk.follower, clock=desk.clock)
        assert await health.problems() == ["the disk of the ledger is full"]
        assert (await gauges(health))["ledger_up"] == 0

    run_virtually(main)


@pytest.mark.parametrize("is_needed", [True, False])
def test_a_process_that_needs_its_broker_is_ready_while_it_is_there(*, is_needed: bool) -> None:
    """A process that needs a broker is ready only while the broker can be reached."""
    ups = [True, False, True]

    async def main() -> None:
        desk = await open_desk()
        broker = BrokerHealth(lambda: ups[0], is_needed)
        health = ProcessHealth(
            ledger=desk.ledger, follower=desk.follower, clock=desk.clock, broker=broker
        )
        while ups:
            is_down = not ups[0]
            told = ["the broker cannot be reached"] if is_down and is_needed else []
            assert await health.problems() == told
            assert (await gauges(health))["broker_up"] == (0 if is_down else 1)
            ups.pop(0)

    run_virtually(main)


def test_what_is_wrong_is_told_without_secrets() -> None:
    """Problems are reported without the text of the ledger's error."""

    async def main() -> None:
        desk = await open_desk()
        ledger = Away()
        health = ProcessHealth(
            ledger=ledger, follower=Follower(ledger, desk.clock, []), clock=desk.clock
        )
        expected = ["the ledger does not answer", "the replica is not loaded yet"]
        assert await health.problems() == expected
        found = await gauges(health)
        assert found["ledger_up"] == 0
        assert "feed_lag_versions" not in found

    run_virtually(main)


def test_gauges_count_what_is_there() -> None:
    """The gauges count hosts, instances and pending requests and show their ages."""

    async def main() -> None:
        desk = await open_desk()
        await desk.placer.place(order_of(make_request(1)))
        waiting = make_request(2)
        await desk.ledger.write(Add(PendingRequest(waiting, desk.clock.now_s())))
        await desk.follower.catch_up()
        await desk.clock.sleep(7)
        found = await gauges(vitals_of(desk, Written("line 3 is wrong")))
        assert found["hosts up"] + found["hosts down"] == 2
        assert found["pending_requests"] == 1
        assert found["pending_age_seconds"] == found["table_age_seconds"] == 7
        assert (found["instances BUILD"], found["instances ACTIVE"]) == (1, 0)
        assert found["policy_ok"] == 0
        assert found["feed_lag_versions"] == 0

    run_virtually(main)


def test_every_gauge_is_read() -> None:
    """Every gauge of the table of measures is read."""

    async def main() -> None:
        desk = await open_desk()
        health = vitals_of(desk)
        view = LedgerView(desk.ledger, desk.follower, desk.replica)
        tracker = InstanceTracker(view, desk.policies, desk.clock, desk.told)
        house = ZoneServices("west", desk, InProcessZones())
        watch = ZoneWatch(
            children=house.near,
            clock=desk.clock,
            telemetry=desk.told,
            rng=Random(1),
            settings=WatchSettings(),
        )
        health.further += [tracker.read, house.held.read, house.withdrawals.read, watch.read]
        health.further.append(desk.liveness.read)
        desk.replica.flavors["1"] = make_flavor(1)
        rules = CapacityRules(lambda: 60.0, lambda: "nova")
        decisions = DecisionService(desk.replica, desk.policies, desk.clock)
        health.surveys.append(CapacityGauges(desk.replica, decisions, desk.clock, rules).read)
        readings = [*await health.read(), *await SessionHealth([], desk.clock).read()]
        # `tests/unit/api/auth/test_keystone.py` reads the gauge of the mode keystone.
        assert {one.measure for one in readings} == set(GAUGES) - {KEYSTONE_UP}

    run_virtually(main)


def test_instances_are_counted_by_what_clients_see() -> None:
    """Instances are counted by the status that clients see, and every status has a gauge."""

    async def main() -> None:
        desk = await open_desk()
        health = vitals_of(desk)
        await desk.follower.start()
        for number, (status, task) in enumerate(
            [
                (Status.ACTIVE, None),
                (Status.ACTIVE, Task.REBOOTING),
                (Status.SHUTOFF, Task.RESIZE_PREP),
                (Status.SHELVED_OFFLOADED, None),
                (Status.ERROR, None),
                (Status.DELETED, None),
            ],
            1,
        ):
            host = None if status is Status.SHELVED_OFFLOADED else "host-1"
            made = replace(make_instance(number, host=host), status=status, task=task)
            await desk.ledger.write(Put(made))
        await desk.follower.catch_up()
        found = await gauges(health)
        counts = {n.split()[1]: int(v) for n, v in found.items() if n.startswith("instances ")}
        assert set(counts) == set(STATUSES_SHOWN)
        assert {name: count for name, count in counts.items() if count} == {
            "ACTIVE": 1,
            "REBOOT": 1,
            "RESIZE": 1,
            "SHELVED_OFFLOADED": 1,
            "ERROR": 1,
        }
        done = await desk.ledger.get(Instance, make_instance(2).uuid)
        assert done is not None
        await desk.ledger.write(Put(replace(done, task=None)))
        await desk.follower.catch_up()
        found = await gauges(health)
        assert (found["instances ACTIVE"], found["instances REBOOT"]) == (2, 0)

    run_virtually(main)
