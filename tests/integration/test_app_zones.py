"""Zones in assembled processes: what a zone's name enables, and what is off without one."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from time import time

import pytest

from berth.app.agents import agent_loops, agent_pool
from berth.app.core import Core, common_loops, open_core
from berth.app.gateway import host_gateway
from berth.app.run import running
from berth.app.scheduler import scheduler_loops
from berth.app.virt import open_drivers
from berth.app.zones import ZoneContext, key_file_of, open_zone, zone_loops, zone_parts
from berth.config.settings_reader import read_settings
from berth.domain.compute.flavor import Flavor
from berth.domain.compute.instance import Instance
from berth.domain.compute.request import Request
from berth.domain.errors import InvalidInputError
from berth.domain.zones.zone_orders import (
    BuildItem,
    BuildOrder,
    ReleaseOrder,
    SelectOrder,
    Withdrawal,
)
from berth.services.requests.orders import PLACE, PlaceOrder
from berth.services.zoning.children.zones import NewZone
from berth.services.zoning.messages.zone_commands import BUILD, RELEASE, SELECT

FLAVOR = Flavor("small", "small", vcpus=1, memory_mb=512)
UUIDS = tuple(f"{number:08}-0000-4000-8000-000000000000" for number in range(3))
TIMEOUT_S = 10.0


@asynccontextmanager
async def zone_up(folder: Path, **zones: object) -> AsyncGenerator[tuple[Core, ZoneContext | None]]:
    """Run what `berth up` runs except for its API, with one host of four VCPUs."""
    options: dict[str, object] = {
        "ledger.data_dir": str(folder),
        "agent.fake_hosts": 1,
        "agent.vcpus": 4,
        "agent.initial_cpu_allocation_ratio": 1.0,
    }
    options |= {f"zones.{name}": value for name, value in zones.items()}
    settings = read_settings(None, {}, options)
    async with (
        open_core(settings, "up") as core,
        open_zone(core) as zone,
        open_drivers(settings, core.clock) as drivers,
    ):
        gateway = host_gateway(core)
        pool = agent_pool(core, gateway, drivers)
        core.follower.subscribers.append(pool)
        await pool.register()
        await core.follower.start()
        await pool.adopt()
        own = [*scheduler_loops(core, None, zone), *zone_loops(zone)]
        loops = [*own, *agent_loops(core, pool, gateway, None), *common_loops(core)]
        async with running(loops, core.clock, core.telemetry):
            yield core, zone
        await pool.close()


def request_of(count: int) -> Request:
    """Return a request for small instances."""
    return Request("req-1", UUIDS[:count], FLAVOR, project_id="p", user_id="u")


def instance_of(uuid: str) -> Instance:
    """Return an instance of that request."""
    return Instance(
        uuid=uuid,
        name="vm",
        project_id="p",
        user_id="u",
        request_id="req-1",
        reservation_id="r-00000001",
        flavor=FLAVOR,
    )


async def test_without_a_name_nothing_of_it_is_there(tmp_path: Path) -> None:
    """Without a name there is no zone, no key file and no handler for offers."""
    async with zone_up(tmp_path) as (core, zone):
        assert zone is None
        assert zone_parts(core, zone) is None
        assert not core.messaging.bus.serves(SELECT)
        assert core.messaging.bus.serves(PLACE)
    assert not (tmp_path / "zone-keys").exists()


async def test_a_zone_answers_its_parents(tmp_path: Path) -> None:
    """A zone makes offers, builds on them, and releases an instance, over the bus."""
    async with zone_up(tmp_path, name="west", held_share_max=1.0) as (core, zone):
        assert zone is not None
        bus, request = core.messaging.bus, request_of(2)
        order = SelectOrder(request, "root", time() + 2.0)
        offers = await bus.call(SELECT, order, timeout_s=TIMEOUT_S)
        assert len(offers.blobs) == 2
        # Two of the four VCPUs are now held for the parent.
        crowd = SelectOrder(request_of(3), "other", time() + 2.0)
        assert len((await bus.call(SELECT, crowd, timeout_s=TIMEOUT_S)).blobs) == 2
        pairs = zip(UUIDS, offers.blobs, strict=False)
        items = tuple(BuildItem(instance_of(uuid), blob, sent_ms=1) for uuid, blob in pairs)
        built = await bus.call(BUILD, BuildOrder(request, "root", items), timeout_s=TIMEOUT_S)
        assert [one.flaw for one in built.outcomes] == [None, None]
        gone = ReleaseOrder("root", withdrawn=(Withdrawal(UUIDS[0], 1),), project_id="p")
        released = await bus.call(RELEASE, gone, timeout_s=TIMEOUT_S)
        assert released.kept == frozenset()
        kept = await core.ledger.get(Instance, UUIDS[1])
        assert kept is not None
        assert kept.host is not None


async def test_requests_are_placed_here_as_ever(tmp_path: Path) -> None:
    """A zone whose child cannot be reached places requests on its own hosts."""
    async with zone_up(tmp_path, name="root") as (core, zone):
        assert zone is not None
        await zone.zones.create(NewZone("west", "http://127.0.0.1:1", password="secret"))
        await core.follower.catch_up()
        assert [one.name for one in zone.watch.active()] == ["west"]
        order = PlaceOrder(request_of(2), tuple(map(instance_of, UUIDS[:2])))
        decision = await core.messaging.bus.call(PLACE, order, timeout_s=TIMEOUT_S)
        assert len(decision.placements) == 2


async def test_a_zone_tells_of_itself(tmp_path: Path) -> None:
    """A zone reports the capabilities from its settings, and the ranges that they disclose."""
    told = {"capabilities": "os=linux", "told_capabilities": "total.VCPU"}
    async with zone_up(tmp_path, name="west", **told) as (core, zone):
        parts = zone_parts(core, zone)
        assert parts is not None
        info = parts.info.info()
        assert (info.name, info.capabilities) == ("west", {"os": ("linux",)})
        assert info.ranges == {"total.VCPU": (4.0, 4.0)}


async def test_operators_learn_that_weights_do_not_compare(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A policy whose scores are not comparable between zones is reported in the log."""
    settings = read_settings(
        None,
        {},
        {"ledger.data_dir": str(tmp_path), "zones.name": "west", "policy.path": "nova"},
    )
    async with open_core(settings, "scheduler") as core, open_zone(core) as zone:
        await core.follower.start()
        loops = [one for one in scheduler_loops(core, None, zone) if one[0] == "comparing"]
        async with running(loops, core.clock, core.telemetry):
            await asyncio.sleep(0)
        shown = {one.measure.name for one in await core.health.read()}
        assert {"berth_child_zones", "berth_offers_held"} <= shown
    printed = capsys.readouterr()
    assert "zone_weights_incomparable" in printed.out + printed.err


async def test_a_key_file_that_everybody_reads_ends_the_start(tmp_path: Path) -> None:
    """A key file with mode 644 ends the start with an error that says what to do."""
    settings = read_settings(None, {}, {"ledger.data_dir": str(tmp_path), "zones.name": "west"})
    path = key_file_of(settings)
    path.write_text("offers x\n")
    os.chmod(path, 0o644)  # noqa: PTH101 - pathlib's own is the same
    with pytest.raises(InvalidInputError, match="chmod 600"):
        async with open_core(settings, "scheduler") as core, open_zone(core):
            pass


async def test_a_zone_without_hosts_has_nothing_to_audit(tmp_path: Path) -> None:
    """A zone without hosts runs no audit loop, but the loops of a zone."""
    settings = read_settings(None, {}, {"ledger.data_dir": str(tmp_path), "zones.name": "root"})
    async with open_core(settings, "up") as core, open_zone(core) as zone:
        gateway = host_gateway(core)
        pool = agent_pool(core, gateway, {})
        loops = [*scheduler_loops(core, None, zone), *agent_loops(core, pool, gateway, None)]
        assert [name for name, _ in loops if name in {"audits", "agents"}] == ["agents"]
        assert {"taking_back", "passwords", "holds"} <= {name for name, _ in loops}
