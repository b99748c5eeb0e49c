"""Tests for provider trees that agents report and clients of the Placement API rearrange."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from berth.domain.compute.host import Service
from berth.domain.errors import ConflictError
from berth.domain.inventory.provider import Provider, child_uuid
from berth.domain.inventory.resources import VCPU, Inventory
from berth.domain.ledger.write import Put, Unit
from berth.ports.virt import ChildReport, HostReport
from berth.services.providers.provider_writes import ProviderRefusedError, RefusalRule
from berth.services.providers.resource_providers import ResourceProviders
from berth.testing.builders import make_aggregate, make_host, make_provider, make_uuid
from tests.unit.services.placement_desk import PlacementDesk
from tests.unit.services.wiring import CountedIds, Desk, Fleet, open_desk

HOST = make_uuid("host", 1)
CELL, GPU = (ChildReport(name, {"CUSTOM_X": Inventory(8)}, frozenset()) for name in ("cell", "gpu"))
CELL_UUID, GPU_UUID = (child_uuid(HOST, part.name) for part in (CELL, GPU))


class World:
    """Berth's own services and those of the Placement API in another process."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.placement = PlacementDesk(desk.ledger)
        self.providers = ResourceProviders(
            follower=self.placement.follower,
            ledger=desk.ledger,
            replica=self.placement.replica,
            clock=desk.clock,
            ids=CountedIds(),
        )

    async def report(self, *parts: ChildReport, number: int = 1) -> None:
        """Report these children of a host as its agent."""
        told = HostReport(make_host(number), make_provider(number), parts)
        await self.desk.hosts.register([told])

    async def make(self, name: str, below: str | None = None) -> str:
        """Create a provider that no agent reports, and return its uuid."""
        return (await self.providers.create(name, None, below)).uuid

    async def move(self, uuid: str, below: str | None) -> None:
        """Move a provider below another one."""
        provider = await self.stored(uuid)
        await self.providers.change(uuid, name=provider.name, parent=below, may_move=True)

    async def stored(self, uuid: str) -> Provider:
        """Return a provider from the ledger."""
        provider = await self.desk.ledger.get(Provider, uuid)
        assert provider is not None
        return provider

    async def parents(self) -> dict[str, str | None]:
        """Return the parent of every provider, and check that all are attached."""
        await self.placement.follower.catch_up()
        assert not self.placement.replica.table.unattached
        return {one.uuid: one.parent_uuid for one in await self.desk.ledger.all(Provider)}

    def meanwhile(self, uuid: str, told: list[ProviderRefusedError]) -> None:
        """Let a client create a child of a provider just before the next commit."""
        ledger = self.desk.ledger

        async def interfere(units: Sequence[Unit]) -> None:
            del units
            ledger.before_commit = None
            try:
                await self.make("mine", uuid)
            except ProviderRefusedError as error:
                told.append(error)

        ledger.before_commit = interfere

    def interrupted(self) -> None:
        """Let the agent report no children just before the next commit."""
        ledger = self.desk.ledger

        async def interfere(units: Sequence[Unit]) -> None:
            del units
            ledger.before_commit = None
            await self.report()

        ledger.before_commit = interfere


async def open_world(*parts: ChildReport, hosts: int = 1) -> World:
    """Return services on one ledger with registered hosts that have these children."""
    world = World(await open_desk(Fleet(hosts=0)))
    for number in range(1, hosts + 1):
        await world.report(*parts, number=number)
    await world.placement.follower.start()
    return world


# ---- where parts are ----------------------------------------------------------------------------


async def test_a_part_stays_where_it_was_moved() -> None:
    """A child that a client moved stays there while its agent's report is unchanged."""
    world = await open_world(CELL, GPU)
    group = await world.make("group", HOST)
    await world.move(GPU_UUID, group)
    for _ in range(2):
        await world.report(CELL, GPU)
        assert (await world.parents())[GPU_UUID] == group
    view = await world.desk.hosts.get("host-1")
    assert {child.name for child in view.children} == {"cell", "gpu", "group"}


async def test_a_part_goes_where_its_agent_moves_it() -> None:
    """A child moves where its agent newly reports it."""
    world = await open_world(CELL, GPU)
    await world.move(GPU_UUID, await world.make("group", HOST))
    await world.report(CELL, replace(GPU, parent="cell"))
    assert (await world.parents())[GPU_UUID] == CELL_UUID
    await world.report(CELL, GPU)
    assert (await world.parents())[GPU_UUID] == HOST


@pytest.mark.parametrize("parts", [(CELL, GPU), (GPU, CELL)])
async def test_no_report_makes_a_ring(parts: tuple[ChildReport, ...]) -> None:
    """A report that contradicts a client's move makes no cycle."""
    world = await open_world(*parts)
    await world.move(CELL_UUID, GPU_UUID)
    await world.report(*(replace(GPU, parent="cell") if part is GPU else part for part in parts))
    assert (await world.parents())[CELL_UUID] == GPU_UUID


async def test_a_host_may_be_below_a_part_of_its_own() -> None:
    """A host may be below its own former child, and no report makes a cycle of it."""
    world = await open_world(CELL, GPU)
    await world.move(GPU_UUID, None)
    await world.move(HOST, GPU_UUID)
    await world.report(CELL, GPU)
    await world.report(CELL, replace(GPU, parent="cell"))
    assert await world.parents() == {GPU_UUID: None, HOST: GPU_UUID, CELL_UUID: HOST}


async def test_a_report_and_a_move_at_once_make_no_ring() -> None:
    """A report and a simultaneous move make no cycle."""
    world = await open_world(CELL, GPU)
    rack = await world.make("rack")
    await world.move(HOST, rack)
    await world.move(GPU_UUID, None)
    ledger = world.desk.ledger

    async def interfere(units: Sequence[Unit]) -> None:
        del units
        ledger.before_commit = None
        await world.move(rack, GPU_UUID)

    ledger.before_commit = interfere
    await world.report(CELL, replace(GPU, parent="cell"))
    parents = await world.parents()
    assert (parents[rack], parents[GPU_UUID]) == (GPU_UUID, None)


# ---- what goes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_in_rack", [False, True])
async def test_nothing_is_hung_below_a_part_that_goes(is_in_rack: bool) -> None:
    """A child provider cannot be created below one that the agent removes first."""
    world = await open_world(GPU)
    if is_in_rack:
        await world.move(HOST, await world.make("rack"))
    world.interrupted()
    with pytest.raises(ProviderRefusedError) as refused:
        await world.make("mine", GPU_UUID)
    assert refused.value.why is RefusalRule.NO_PARENT
    assert GPU_UUID not in await world.parents()


@pytest.mark.parametrize("is_in_rack", [False, True])
async def test_a_part_below_which_something_is_hung_stays(is_in_rack: bool) -> None:
    """A child that gets a child of its own before its removal stays without inventories."""
    world = await open_world(GPU)
    if is_in_rack:
        await world.move(HOST, await world.make("rack"))
    told: list[ProviderRefusedError] = []
    world.meanwhile(GPU_UUID, told)
    await world.report()
    assert not told
    assert GPU_UUID in await world.parents()
    assert not (await world.stored(GPU_UUID)).inventories


@pytest.mark.parametrize("is_in_rack", [False, True])
async def test_a_host_goes_with_all_that_is_below_it(is_in_rack: bool) -> None:
    """Removing a host removes all providers below it, even one created at the last moment."""
    world = await open_world(GPU)
    rack = await world.make("rack")
    if is_in_rack:
        await world.move(HOST, rack)
    await world.make("deep", await world.make("group", GPU_UUID))
    told: list[ProviderRefusedError] = []
    world.meanwhile(GPU_UUID, told)
    await world.desk.hosts.remove("host-1")
    assert not told
    assert await world.parents() == {rack: None}


async def test_a_host_with_another_one_below_it_is_not_removed() -> None:
    """A host with another host below it is not removed."""
    world = await open_world(GPU, hosts=2)
    other = make_uuid("host", 2)
    await world.move(other, GPU_UUID)
    with pytest.raises(ConflictError, match=r"cannot remove host .*host-2 is under its own"):
        await world.desk.hosts.remove("host-1")
    assert await world.desk.ledger.get(Service, "host-1") is not None
    await world.move(other, None)
    await world.desk.hosts.remove("host-1")
    assert set(await world.parents()) == {other, child_uuid(other, "gpu")}


async def test_nodes_of_a_host_go_together() -> None:
    """The nodes of a host are removed together, even if one is below another."""
    world = await open_world()
    node = replace(make_host(2), name="host-1", node="second")
    await world.desk.hosts.register([HostReport(node, replace(make_provider(2), name="second"))])
    await world.move(make_uuid("host", 2), HOST)
    await world.desk.hosts.remove("host-1")
    assert await world.parents() == {}


# ---- records of before -----------------------------------------------------------------------


async def test_a_host_of_before_comes_into_the_aggregates_that_it_is_in() -> None:
    """The first report adds the host's aggregates to a record that lacks them, and no later one."""
    desk = await open_desk(Fleet(hosts=1))
    gold = make_aggregate(1)
    await desk.ledger.write(Put(gold))
    world = World(desk)
    await world.report()
    old = await world.stored(HOST)
    assert old.aggregates == (gold.uuid,)
    await desk.ledger.write(Put(replace(old, aggregates=())))
    await world.report()
    provider = await world.stored(HOST)
    assert (provider.aggregates, provider.inventories[VCPU].total) == ((), 16)
