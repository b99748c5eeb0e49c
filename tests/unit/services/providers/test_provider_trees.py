"""Tests for the child providers that hosts report."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from berth.adapters.virt.fake import FakeDriver, FakeHost
from berth.domain.compute.host import Host
from berth.domain.errors import ConflictError, InvalidInputError
from berth.domain.inventory.allocation import Allocation, Claim
from berth.domain.inventory.provider import Provider, child_uuid
from berth.domain.inventory.resources import VCPU, Inventory
from berth.domain.ledger.write import Free, Put, Take
from berth.ports.virt import ChildReport, HostReport
from berth.services.providers.provider_trees import CHILDREN_MAX, children_of
from berth.testing.builders import make_host, make_provider, make_uuid
from berth.testing.fleets import GPU_MILLI
from tests.unit.services.wiring import Desk, Fleet, open_desk

ROOT = make_uuid("host", 1)
GPU = ChildReport("GPU 0", {GPU_MILLI: Inventory(1000)}, frozenset({"CUSTOM_A100"}))
PART = ChildReport("slice", {"CUSTOM_SLICE": Inventory(2)}, parent="GPU 0")


def report(*children: ChildReport, number: int = 1) -> HostReport:
    """Return the report of `host-N` with these children."""
    return HostReport(make_host(number), make_provider(number), children)


async def names(desk: Desk) -> list[str]:
    """Return the names of the children of `host-1`."""
    return [child.name for child in (await desk.hosts.get("host-1")).children]


async def use(desk: Desk, uuid: str, consumer: str = "vm") -> None:
    """Let a consumer take 300 of a GPU."""
    allocation = Allocation(consumer, uuid, {GPU_MILLI: 300})
    await desk.ledger.write(Take(Claim(key=f"of {consumer}", allocations=(allocation,))))


async def test_parts_are_registered_below_their_host() -> None:
    """Children are registered below their host, with uuids derived from their names."""
    desk = await open_desk(Fleet(hosts=0))
    await desk.hosts.register([report(GPU, PART)])
    view = await desk.hosts.get("host-1")
    assert [(one.name, one.parent_uuid) for one in view.children] == [
        ("GPU 0", ROOT),
        ("slice", child_uuid(ROOT, "GPU 0")),
    ]
    assert view.children[0].inventories == {GPU_MILLI: Inventory(1000)}
    assert view.children[0].traits == {"CUSTOM_A100"}
    assert view.host.child_uuids == tuple(child.uuid for child in view.children)


async def test_registering_again_keeps_what_is_used_of_a_part() -> None:
    """A new registration keeps the usage of a child and updates its inventory."""
    desk = await open_desk(Fleet(hosts=0))
    await desk.hosts.register([report(GPU)])
    await use(desk, child_uuid(ROOT, "GPU 0"))
    await desk.hosts.register([report(replace(GPU, inventories={GPU_MILLI: Inventory(800)}))])
    (child,) = (await desk.hosts.get("host-1")).children
    assert child.used == {GPU_MILLI: 300}
    assert child.inventories[GPU_MILLI].total == 800


async def test_a_part_that_is_gone_is_removed_once_it_is_free() -> None:
    """A child that is no longer reported is removed once it is free; until then it has no room."""
    desk = await open_desk(Fleet(hosts=0))
    await desk.hosts.register([report(GPU, PART)])
    await use(desk, child_uuid(ROOT, "GPU 0"))
    await desk.hosts.register([report()])
    (child,) = (await desk.hosts.get("host-1")).children
    assert (child.name, child.used) == ("GPU 0", {GPU_MILLI: 300})
    assert child.inventories == {GPU_MILLI: Inventory(0)}
    await desk.ledger.write(Free("vm"))
    await desk.hosts.register([report()])
    assert await names(desk) == []
    host = await desk.ledger.get(Host, ROOT)
    assert host is not None
    assert host.child_uuids == ()
    await desk.hosts.register([report(GPU)])
    assert await names(desk) == ["GPU 0"]


async def test_a_part_that_somebody_has_removed_is_no_error() -> None:
    """A report after the removal of a child raises no error."""
    desk = await open_desk(Fleet(hosts=0))
    await desk.hosts.register([report(GPU)])
    host = await desk.ledger.get(Host, ROOT)
    assert host is not None
    await desk.hosts.remove("host-1")
    await desk.hosts.register([report()])
    assert await names(desk) == []


async def test_what_others_have_added_is_left_alone() -> None:
    """Children that the agent did not report are kept."""
    desk = await open_desk(Fleet(hosts=0))
    await desk.hosts.register([report(GPU)])
    from_elsewhere = Provider("other", "bandwidth", ROOT, inventories={"NET": Inventory(1)})
    await desk.ledger.write(Put(from_elsewhere))
    await desk.hosts.register([report()])
    assert await names(desk) == ["bandwidth"]


async def test_a_host_is_removed_with_its_parts() -> None:
    """Removing a host removes all of its children."""
    desk = await open_desk(Fleet(hosts=0))
    await desk.hosts.register([report(GPU, PART), report(number=2)])
    await desk.ledger.write(Put(Provider("other", "bandwidth", ROOT)))
    await desk.hosts.remove("host-1")
    assert [one.uuid for one in await desk.ledger.all(Provider)] == [make_uuid("host", 2)]
    await desk.follower.catch_up()
    assert not len(desk.replica.hosts.trees)


async def test_a_host_of_which_a_part_is_used_is_not_removed() -> None:
    """A host with a child in use is not removed, and the error names the child."""
    desk = await open_desk(Fleet(hosts=0))
    await desk.hosts.register([report(GPU)])
    await use(desk, child_uuid(ROOT, "GPU 0"))
    with pytest.raises(ConflictError, match=f"{child_uuid(ROOT, 'GPU 0')}.* has allocations"):
        await desk.hosts.remove("host-1")
    assert await names(desk) == ["GPU 0"]


async def test_a_host_that_is_removed_while_it_registers_leaves_no_part_behind() -> None:
    """A host removed while it registers is either complete or gone."""
    desk = await open_desk(Fleet(hosts=0))
    await desk.hosts.register([report(GPU)])
    await asyncio.gather(desk.hosts.remove("host-1"), desk.hosts.register([report(GPU, PART)]))
    providers = {one.uuid for one in await desk.ledger.all(Provider)}
    parts = {child_uuid(ROOT, "GPU 0"), child_uuid(ROOT, "slice")}
    assert providers in (set(), {ROOT, *parts})


async def test_many_hosts_register_their_parts_at_once() -> None:
    """Many hosts register their children simultaneously, and again."""
    desk = await open_desk(Fleet(hosts=0))
    reports = [report(GPU, number=number) for number in range(1, 41)]
    for _ in range(2):
        await desk.hosts.register(reports)
    assert len(await desk.ledger.all(Provider)) == 80
    await desk.hosts.register([report(number=number) for number in range(1, 41)])
    assert len(await desk.ledger.all(Provider)) == 40


async def test_nodes_of_one_service_host_have_parts_of_their_own() -> None:
    """Each node of a service host has its own children."""
    desk = await open_desk(Fleet(hosts=0))
    nodes = [replace(make_host(n), name="host", node=f"node-{n}") for n in (1, 2, 3, 4)]
    await desk.hosts.register(
        [
            HostReport(node, replace(make_provider(n), name=node.node), (GPU,))
            for n, node in enumerate(nodes, 1)
        ]
    )
    assert [len(view.children) for view in await desk.hosts.all()] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("children", "reason"),
    [
        ([GPU, GPU], "two children have the same name"),
        ([replace(GPU, name="")], "1 to 255 visible characters"),
        ([replace(GPU, name="a\nb")], "1 to 255 visible characters"),
        ([PART], "the parent 'GPU 0' is missing from the report"),
        ([replace(GPU, parent="slice"), PART], "its parents form a loop at"),
        ([replace(GPU, parent="GPU 0")], "its parents form a loop at 'GPU 0'"),
        ([replace(GPU, traits=frozenset({"a100"}))], "A-Z"),
        ([replace(GPU, inventories={"gpu": Inventory(1)})], "A-Z"),
        (
            [ChildReport(str(n)) for n in range(CHILDREN_MAX + 1)],
            f"exceed the maximum of {CHILDREN_MAX}",
        ),
    ],
)
async def test_parts_that_make_no_tree_are_refused(
    children: Sequence[ChildReport], reason: str
) -> None:
    """Invalid children are refused, and the error names the child."""
    desk = await open_desk(Fleet(hosts=0))
    with pytest.raises(InvalidInputError, match=reason) as caught:
        await desk.hosts.register([report(*children)])
    assert caught.value.field.startswith("host host-1: children")
    assert await desk.ledger.all(Provider) == []


@pytest.mark.parametrize(
    ("inventory", "reason"),
    [
        (Inventory(8, reserved=9), "reserved: 9 must be at most the total 8"),
        (Inventory(8, allocation_ratio=0.0), "must be above 0"),
        (Inventory(8, allocation_ratio=-1.0), "must be above 0"),
        (Inventory(8, allocation_ratio=10_001.0), "at most 10000"),
    ],
)
async def test_inventories_that_only_the_api_takes_are_refused(
    inventory: Inventory, reason: str
) -> None:
    """Inventories that only the Placement API accepts are refused for hosts and children."""
    desk = await open_desk(Fleet(hosts=0))
    root = report()
    root = replace(root, provider=replace(root.provider, inventories={VCPU: inventory}))
    for refused in (root, report(replace(GPU, inventories={GPU_MILLI: inventory}))):
        with pytest.raises(InvalidInputError, match=reason):
            await desk.hosts.register([refused])
    assert await desk.ledger.all(Provider) == []


async def test_a_fake_host_reports_its_parts() -> None:
    """A fake host reports its children."""
    desk = await open_desk(Fleet(hosts=0))
    driver = FakeDriver(FakeHost("fake", {VCPU: 4}, children=(GPU, PART)), desk.clock)
    names = [child.name for child in children_of(await driver.report())]
    assert names == ["fake:GPU 0", "fake:slice"]
