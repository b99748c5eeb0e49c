"""Two parents that ask a zone with several schedulers for its last place simultaneously."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from berth.adapters.bus.rabbitmq import RabbitBroker
from berth.adapters.system import LogTelemetry, SystemClock
from berth.adapters.zones import open_children
from berth.config import zone_keys
from berth.config.zone_keys import ZoneKeyFile
from berth.domain.compute.request import Request, instance_uuid_of
from berth.domain.errors import UnavailableError
from berth.domain.zones.zone import Zone
from berth.domain.zones.zone_orders import ReleaseOrder, SelectOrder, UnusedOffers
from berth.services.zoning.messages.assertions import AssertionWriter
from berth.services.zoning.messages.child_client import ChildClient
from berth.testing.builders import make_flavor
from tests.e2e.conftest import Processes
from tests.e2e.zones.tree import RunningZone, start_zone_of_processes

ROUNDS = 10
ASK_S = 10.0
WITHIN_S = 60.0


@asynccontextmanager
async def parent_of(zone: RunningZone, name: str, folder: Path) -> AsyncIterator[ChildClient]:
    """Yield a client of a parent that the zone trusts."""
    keys, clock = folder / f"{name}-keys", SystemClock()
    zone_keys.create(keys)
    zone_keys.add_parent(zone.folder / "zone-parents", name, zone_keys.public_text(keys))
    signer = ZoneKeyFile(keys, clock, LogTelemetry(name))
    writer = AssertionWriter(name, signer, clock.now_s, os.urandom)
    async with open_children(writer, password_of=lambda _: "") as forwards:
        yield ChildClient(forwards, clock)


async def offers(children: ChildClient, zone: RunningZone, name: str, number: int) -> int:
    """Select one place, release it after a pause, and return the number of offers."""
    request_id = f"{name}-{number}"
    uuids = (instance_uuid_of(request_id, 0),)
    flavor = make_flavor(vcpus=1, memory_mb=64)
    request = Request(request_id, uuids, flavor, project_id="p", user_id="u")
    record = Zone(1, zone.name, zone.service.url)
    order = SelectOrder(request, name, time.time() + ASK_S)
    found = await children.select(record, order, timeout_s=ASK_S)
    await asyncio.sleep(0.2)
    release = ReleaseOrder("p", surplus=(UnusedOffers(found.select_id),))
    await children.release(record, release, timeout_s=ASK_S)
    return len(found.weights)


@pytest.mark.rabbitmq
@pytest.mark.timeout(240)
async def test_one_of_them_gets_it(
    processes: Processes, broker: RabbitBroker, tmp_path: Path
) -> None:
    """Exactly one parent gets the offer, even after schedulers of the zone are killed."""
    west = start_zone_of_processes(processes, "west", broker, vcpus=1, schedulers=3)
    west.wait()
    async with (
        parent_of(west, "first", tmp_path) as first,
        parent_of(west, "second", tmp_path) as second,
    ):
        await asyncio.sleep(2.1)  # the zone reads the file of parents once a second
        schedulers = [*west.parts[1:-1]]
        for turn in range(len(schedulers)):
            deadline_s = time.monotonic() + WITHIN_S
            for number in range(ROUNDS):
                names = [(first, "first"), (second, "second")]
                try:
                    got = await asyncio.gather(
                        *(offers(who, west, name, turn * 100 + number) for who, name in names)
                    )
                except UnavailableError:
                    # The broker may have delivered the order to the killed scheduler.
                    assert time.monotonic() < deadline_s
                    continue
                assert sorted(got) == [0, 1], (turn, number)
            if turn < len(schedulers) - 1:
                schedulers[turn].process.kill()
                schedulers[turn].process.wait()
