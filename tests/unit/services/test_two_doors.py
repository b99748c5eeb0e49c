"""Tests that writes of Berth's own API and of the Placement API are visible to each other."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from berth.domain.compute.decision import Verdict
from berth.domain.inventory.provider import Provider, child_uuid
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU, Inventory
from berth.domain.ledger.write import Guard, Put, ReplaceProvider, Unit
from berth.ports.virt import ChildReport, HostReport
from berth.services.providers.provider_writes import provider_guard
from berth.testing.builders import make_host, make_provider, make_request, make_uuid
from berth.testing.fleets import GPU_MILLI
from tests.unit.services.placement_desk import PlacementDesk, share
from tests.unit.services.wiring import Desk, Fleet, open_desk, order_of

HOST = make_uuid("host", 1)
GPU = ChildReport("GPU 0", {GPU_MILLI: Inventory(1000)}, frozenset({"CUSTOM_A100"}))
SHARED = ("00000000-0000-4000-8000-00000000000a",)
NET = Inventory(10, allocation_ratio=7.0)


def report(*children: ChildReport, number: int = 1) -> HostReport:
    """Return the report of `host-N` with 16 VCPUs and these children."""
    return HostReport(make_host(number), make_provider(number), children)


async def open_both(hosts: int = 1) -> tuple[Desk, PlacementDesk]:
    """Return both services on one ledger, with registered hosts."""
    desk = await open_desk(Fleet(hosts=0))
    await desk.hosts.register([report(number=n) for n in range(1, hosts + 1)])
    placement = PlacementDesk(desk.ledger)
    await placement.follower.start()
    return desk, placement


async def stored(desk: Desk, uuid: str = HOST) -> Provider:
    """Return a provider from the ledger."""
    provider = await desk.ledger.get(Provider, uuid)
    assert provider is not None
    return provider


async def say(desk: Desk, uuid: str = HOST) -> Provider:
    """Change a provider as clients of the Placement API may, and return it."""
    old = await stored(desk, uuid)
    new = replace(
        old,
        traits=old.traits | {"CUSTOM_RACK_7"},
        inventories={**old.inventories, "CUSTOM_NET": NET},
        aggregates=SHARED,
    )
    version = await desk.ledger.version()
    await desk.ledger.write(Guard(provider_guard(uuid), version), ReplaceProvider(new))
    return new


# ---- claims -----------------------------------------------------------------------------------


async def test_a_claim_by_the_scheduler_is_seen_at_the_other_door() -> None:
    """A claim of the scheduler is visible in the Placement API."""
    desk, placement = await open_both()
    decision = await desk.placer.place(order_of(make_request()))
    assert decision.verdict is Verdict.PLACED
    instance = decision.placements[0].instance_uuid
    provider = await placement.provider()
    assert (provider.used[VCPU], provider.generation) == (1, (await stored(desk)).generation)
    (holding,) = await placement.ledger.provider_consumers(HOST)
    assert (holding.consumer.uuid, holding.consumer.consumer_type) == (instance, "INSTANCE")
    assert (holding.consumer.project_id, holding.consumer.generation) == ("project-1", 1)
    assert holding.allocations[HOST][VCPU] == 1


async def test_a_claim_by_the_api_takes_room_from_the_scheduler() -> None:
    """A claim through the Placement API takes room from the scheduler until it is freed."""
    desk, placement = await open_both()
    await placement.allocation_service.put([share(amounts={VCPU: 16})])
    assert (await desk.placer.place(order_of(make_request()))).verdict is not Verdict.PLACED
    await desk.follower.catch_up()
    assert desk.used(1)[VCPU] == 16
    await placement.allocation_service.put([share(amounts={VCPU: 15}, seen=1)])
    again = order_of(make_request(2))
    assert (await desk.placer.place(again)).verdict is Verdict.PLACED


async def test_an_instance_is_moved_by_the_api() -> None:
    """An instance's allocation can be moved through the Placement API."""
    desk, placement = await open_both(2)
    decision = await desk.placer.place(order_of(make_request()))
    (placed,) = decision.placements
    moved = share(on=2 if placed.host == "host-1" else 1, seen=1)
    consumer = replace(moved.consumer, uuid=placed.instance_uuid)
    await placement.allocation_service.put([replace(moved, consumer=consumer)])
    holding = await desk.ledger.consumer_allocations(placed.instance_uuid)
    assert holding is not None
    assert (holding.consumer.generation, len(holding.allocations)) == (2, 1)
    assert {n: (await desk.ledger.used(n)).get(VCPU, 0) for n in (1, 2)} == {
        (1 if placed.host == "host-1" else 2): 0,
        (2 if placed.host == "host-1" else 1): 1,
    }


# ---- what agents report -------------------------------------------------------------------------


async def test_a_report_keeps_what_others_said() -> None:
    """An agent's report keeps the traits, classes and aggregates of others."""
    desk, _ = await open_both()
    await say(desk)
    smaller = replace(
        make_provider(1), inventories={VCPU: Inventory(8)}, traits=frozenset({"CUSTOM_NEW"})
    )
    for _ in range(2):
        await desk.hosts.register([HostReport(make_host(1), smaller)])
        provider = await stored(desk)
        assert dict(provider.inventories) == {VCPU: Inventory(8), "CUSTOM_NET": NET}
        assert provider.traits == {"CUSTOM_RACK_7", "CUSTOM_NEW"}
        assert provider.aggregates == SHARED
        assert provider.owned_classes == frozenset({VCPU})
        assert provider.owned_traits == frozenset({"CUSTOM_NEW"})
    await desk.hosts.register([report()])
    provider = await stored(desk)
    assert provider.traits == {"CUSTOM_RACK_7"}
    assert provider.inventories.keys() == {VCPU, MEMORY_MB, DISK_GB, "CUSTOM_NET"}


async def test_a_class_in_use_goes_with_the_report_after() -> None:
    """A class in use that is no longer reported stays without room until it is freed."""
    desk, placement = await open_both()
    await placement.allocation_service.put([share(amounts={DISK_GB: 5})])
    smaller = replace(make_provider(1), inventories={VCPU: Inventory(8)})
    for _ in range(2):
        await desk.hosts.register([HostReport(make_host(1), smaller)])
        assert (await stored(desk)).inventories[DISK_GB].total == 0
    await placement.allocation_service.release(make_uuid("consumer", 1))
    await desk.hosts.register([HostReport(make_host(1), smaller)])
    assert (await stored(desk)).inventories.keys() == {VCPU}


async def test_what_an_operator_changes_of_a_report_lasts_until_the_next() -> None:
    """An operator's change of reported inventories lasts until the next report."""
    desk, _ = await open_both()
    old = await stored(desk)
    await desk.ledger.write(ReplaceProvider(replace(old, inventories={VCPU: Inventory(99)})))
    await desk.hosts.register([report()])
    assert (await stored(desk)).inventories == make_provider(1).inventories


async def test_a_record_of_before_is_all_the_agents() -> None:
    """A provider record without owners is replaced by the agent's report."""
    desk = await open_desk(Fleet(hosts=0))
    old = replace(make_provider(1), traits=frozenset({"CUSTOM_OLD"}))
    await desk.ledger.write(Put(make_host(1)), Put(old))
    await desk.hosts.register([report()])
    provider = await stored(desk)
    assert (provider.traits, provider.owned_traits) == (frozenset(), frozenset())


async def test_a_report_and_a_change_at_once_are_both_kept() -> None:
    """A report and a simultaneous change are both kept."""
    desk, _ = await open_both()
    told: list[Provider] = []

    async def interfere(units: Sequence[Unit]) -> None:
        del units
        desk.ledger.before_commit = None
        told.append(await say(desk))

    desk.ledger.before_commit = interfere
    await desk.hosts.register([report(GPU)])
    provider = await stored(desk)
    assert told
    assert "CUSTOM_RACK_7" in provider.traits
    assert provider.inventories["CUSTOM_NET"] == NET
    assert await desk.ledger.get(Provider, child_uuid(HOST, "GPU 0"))


async def test_a_part_keeps_what_others_said_of_it_and_below_it() -> None:
    """A child keeps what others set, even while it is no longer reported."""
    desk, _ = await open_both()
    await desk.hosts.register([report(GPU)])
    gpu = child_uuid(HOST, "GPU 0")
    await say(desk, gpu)
    await desk.ledger.write(Put(Provider("mine", "mine", gpu)))
    await desk.hosts.register([report(GPU)])
    assert (await stored(desk, gpu)).aggregates == SHARED
    await desk.hosts.register([report()])
    part = await stored(desk, gpu)
    assert (part.inventories, part.aggregates) == ({}, SHARED)
    await desk.hosts.register([report(GPU)])
    assert (await stored(desk, gpu)).inventories[GPU_MILLI].total == 1000


async def test_a_host_stays_where_it_was_put() -> None:
    """A host that was put below another provider stays there."""
    desk, _ = await open_both()
    await desk.ledger.write(Put(Provider("rack", "rack")))
    await desk.ledger.write(
        ReplaceProvider(replace(await stored(desk), parent_uuid="rack"), raises=0)
    )
    await desk.hosts.register([report()])
    assert (await stored(desk)).parent_uuid == "rack"


# ---- names --------------------------------------------------------------------------------------


async def names_of(desk: Desk) -> list[str]:
    """Return the names of all providers."""
    return sorted(one.name for one in await desk.ledger.all(Provider))


async def test_parts_of_several_hosts_have_names_of_their_own() -> None:
    """Children of several hosts have distinct provider names and keep their own in the API."""
    desk, _ = await open_both(0)
    await desk.hosts.register([report(GPU, number=n) for n in (1, 2)])
    assert await names_of(desk) == ["host-1", "host-1:GPU 0", "host-2", "host-2:GPU 0"]
    view = await desk.hosts.get("host-2")
    assert [child.name for child in view.children] == ["GPU 0"]


async def test_a_name_that_is_taken_is_told_apart() -> None:
    """A provider whose name is taken is registered under an extended name and keeps it."""
    desk, _ = await open_both(0)
    await desk.ledger.write(Put(Provider("mine", "host-1")))
    twin = HostReport(
        replace(make_host(2), name="host-1", node="twin"), replace(make_provider(2), name="host-1")
    )
    for _ in range(2):
        await desk.hosts.register([report(), twin])
        assert await names_of(desk) == [
            "host-1",
            f"host-1 ({HOST})",
            f"host-1 ({make_uuid('host', 2)})",
        ]


async def test_two_hosts_that_register_one_name_at_once() -> None:
    """Two nodes that register one name simultaneously get distinct names."""
    desk, _ = await open_both(0)
    twin = HostReport(
        replace(make_host(2), name="host-1", node="twin"), replace(make_provider(2), name="host-1")
    )
    await asyncio.gather(desk.hosts.register([report()]), desk.hosts.register([twin]))
    assert len(set(await names_of(desk))) == 2


# ---- aggregates and ratios --------------------------------------------------------------------


async def test_aggregates_of_hosts_are_those_of_their_providers() -> None:
    """A host's aggregates are added to those of its provider in the same unit."""
    desk, _ = await open_both(2)
    await say(desk)
    gold = await desk.aggregates.create("gold", {})
    await desk.aggregates.add_host(1, "host-1")
    assert (await stored(desk)).aggregates == (*SHARED, gold.uuid)
    assert (await stored(desk, make_uuid("host", 2))).aggregates == ()
    await desk.hosts.register([report()])
    assert (await stored(desk)).aggregates == (*SHARED, gold.uuid)
    await desk.aggregates.set_metadata(1, {"cpu_allocation_ratio": "4"})
    assert (await stored(desk)).inventories[VCPU].allocation_ratio == 4.0
    await desk.aggregates.remove_host(1, "host-1")
    assert (await stored(desk)).aggregates == SHARED


async def test_a_node_that_comes_to_a_host_is_in_its_aggregates() -> None:
    """A new node of a host is in the host's aggregates, even if they change meanwhile."""
    desk, _ = await open_both()
    gold = await desk.aggregates.create("gold", {})

    async def add(units: Sequence[Unit]) -> None:
        del units
        desk.ledger.before_commit = None
        await desk.aggregates.add_host(1, "host-1")

    desk.ledger.before_commit = add
    node = replace(make_host(2), name="host-1", node="second")
    await desk.hosts.register([HostReport(node, replace(make_provider(2), name="second"))])
    for number in (1, 2):
        assert (await stored(desk, make_uuid("host", number))).aggregates == (gold.uuid,)
    third = replace(make_host(3), name="host-1", node="third")
    await desk.hosts.register([HostReport(third, replace(make_provider(3), name="third"))])
    assert (await stored(desk, make_uuid("host", 3))).aggregates == (gold.uuid,)


async def test_ratios_of_others_stay() -> None:
    """Only inventories that the agent reports get the host's ratio."""
    desk, _ = await open_both()
    await say(desk)
    await desk.aggregates.create("gold", {"cpu_allocation_ratio": "4"})
    await desk.aggregates.add_host(1, "host-1")
    provider = await stored(desk)
    assert provider.inventories[VCPU].allocation_ratio == 4.0
    assert provider.inventories["CUSTOM_NET"] == NET
    version = await desk.ledger.version()
    await desk.aggregates.set_metadata(1, {"rack": "7"})
    assert (await stored(desk)).generation == provider.generation
    assert await desk.ledger.version() == version + 1


async def test_every_put_of_a_provider_is_guarded() -> None:
    """Every unit that puts a provider has its guard."""
    desk, _ = await open_both()
    units: list[Unit] = []

    async def watch(committed: Sequence[Unit]) -> None:
        units.extend(committed)

    desk.ledger.before_commit = watch
    await desk.hosts.register([report(GPU)])
    await desk.hosts.register([report()])
    await desk.aggregates.create("gold", {"cpu_allocation_ratio": "4"})
    await desk.aggregates.add_host(1, "host-1")
    for unit in units:
        guards = {write.name for write in unit if isinstance(write, Guard)}
        puts = [w.record for w in unit if isinstance(w, Put) and isinstance(w.record, Provider)]
        for provider in puts:
            assert provider_guard(provider.uuid) in guards


@pytest.mark.parametrize("tries", [1, 2])
async def test_a_mirrored_aggregate_and_a_change_at_once_are_both_kept(tries: int) -> None:
    """A change of an aggregate is repeated after each simultaneous change of the provider."""
    desk, _ = await open_both()
    gold = await desk.aggregates.create("gold", {})
    left = [None] * tries

    async def interfere(units: Sequence[Unit]) -> None:
        if left and any(isinstance(write, Guard) for write in units[0]):
            left.pop()
            await say(desk)

    desk.ledger.before_commit = interfere
    await desk.aggregates.add_host(1, "host-1")
    provider = await stored(desk)
    assert not left
    assert provider.aggregates == (*SHARED, gold.uuid)
    assert "CUSTOM_RACK_7" in provider.traits
