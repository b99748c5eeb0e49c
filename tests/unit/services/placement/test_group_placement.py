"""Tests for placing device shares on the children of hosts."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest

from berth.adapters.virt.fake import FakeDriver, FakeHost
from berth.agent.executor import HostContext, HostExecutor
from berth.domain.compute.decision import RefusalCode, Verdict
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.errors import InvalidInputError
from berth.domain.inventory.allocation import Allocation
from berth.domain.inventory.provider import Provider, child_uuid
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU, Inventory
from berth.domain.ledger.write import Free
from berth.ports.virt import ChildReport, HostReport
from berth.services.requests.orders import PlaceOrder
from berth.testing.builders import make_flavor, make_host, make_provider, make_request, make_uuid
from berth.testing.fleets import GPU_MILLI
from tests.unit.services.wiring import Desk, Fleet, open_desk, open_second, order_of

SHARE = {f"resources1:{GPU_MILLI}": "500"}
PAIR = {f"resources{n}:{GPU_MILLI}": "1000" for n in (1, 2)} | {"group_policy": "isolate"}


async def open_gpus(hosts: int = 2, gpus: int = 2) -> Desk:
    """Return a desk whose hosts have this many GPUs each."""
    desk = await open_desk(Fleet(hosts=0))
    parts = tuple(
        ChildReport(f"GPU {number}", {GPU_MILLI: Inventory(1000)}) for number in range(gpus)
    )
    numbers = range(1, hosts + 1)
    await desk.hosts.register([HostReport(make_host(n), make_provider(n), parts) for n in numbers])
    await desk.follower.catch_up()
    return desk


def asked(specs: Mapping[str, str], number: int = 1, count: int = 1) -> PlaceOrder:
    """Return an order of instances with these extra specs."""
    flavor = replace(make_flavor(), extra_specs=specs)
    return order_of(replace(make_request(number, count=count), flavor=flavor))


def gpu(number: int, host: int = 1) -> str:
    """Return the uuid of a GPU."""
    return child_uuid(make_uuid("host", host), f"GPU {number}")


async def used(desk: Desk) -> dict[str, int]:
    """Return the used amount of each GPU in use."""
    providers = await desk.ledger.all(Provider)
    found = {one.uuid: one.used.get(GPU_MILLI, 0) for one in providers}
    return {uuid: amount for uuid, amount in found.items() if amount}


async def test_a_share_is_claimed_on_its_device() -> None:
    """A share is claimed on its GPU and the other amounts on the host."""
    desk = await open_gpus(1)
    decision = await desk.placer.place(asked(SHARE))
    vm = make_uuid("instance", 1)
    assert await desk.ledger.allocations(consumer_uuid=vm) == sorted(
        [
            Allocation(vm, make_uuid("host", 1), {VCPU: 1, MEMORY_MB: 512, DISK_GB: 1}),
            Allocation(vm, gpu(0), {GPU_MILLI: 500}),
        ],
        key=lambda one: one.provider_uuid,
    )
    instance = await desk.ledger.get(Instance, vm)
    assert instance is not None
    assert instance.assignment is not None
    assert instance.assignment.mappings == {"1": (gpu(0),)}
    assert decision.placements[0].assignment == instance.assignment


async def test_shares_fill_a_device_before_the_next_is_begun() -> None:
    """Shares fill a device before the next one is used."""
    desk = await open_gpus(1)
    for number in (1, 2, 3):
        await desk.placer.place(asked(SHARE, number))
    assert await used(desk) == {gpu(0): 1000, gpu(1): 500}
    refused = await desk.placer.place(asked(PAIR, 4))
    assert refused.verdict is Verdict.REFUSED
    assert refused.refusal is not None
    assert "GranularGroupsFilter removed 1" in refused.refusal.message


async def test_instances_of_one_request_share_devices() -> None:
    """The instances of one request share devices."""
    desk = await open_gpus(2)
    decision = await desk.placer.place(asked(SHARE, count=8))
    assert decision.verdict is Verdict.PLACED
    assert set((await used(desk)).values()) == {1000}
    assert len(await used(desk)) == 4


async def test_schedulers_never_give_more_of_a_device_than_there_is() -> None:
    """Several schedulers never claim more of a device than it has."""
    desk = await open_gpus(2)
    desks = [desk, await open_second(desk), await open_second(desk)]
    desk.ledger.before_commit = lambda _: asyncio.sleep(0)
    orders = [asked(SHARE, number) for number in range(1, 11)]
    placed = await asyncio.gather(
        *(desks[n % 3].placer.place(order) for n, order in enumerate(orders))
    )
    assert sum(one.verdict is Verdict.PLACED for one in placed) == 8
    assert sorted((await used(desk)).values()) == [1000] * 4
    refused = [one.refusal for one in placed if one.refusal is not None]
    assert {one.code for one in refused} <= {RefusalCode.ALL_FILTERED, RefusalCode.CONTENTION}
    for one in desks:
        await one.follower.catch_up()
        assert one.replica.held == 0
        trees = one.replica.hosts.trees
        assert [trees.used(slot) for row in (0, 1) for slot in trees.on_row(row)] == [
            {GPU_MILLI: 1000}
        ] * 4


async def test_what_is_decided_counts_before_it_is_committed() -> None:
    """A decision counts for later decisions before it is committed."""
    desk = await open_gpus(1)
    desk.ledger.gate = asyncio.Event()
    first = asyncio.create_task(desk.placer.place(asked(PAIR)))
    await asyncio.sleep(0.01)
    trees = desk.replica.hosts.trees
    assert [trees.used(slot) for slot in trees.on_row(0)] == [{GPU_MILLI: 1000}] * 2
    desk.ledger.gate.set()
    assert (await first).verdict is Verdict.PLACED


async def test_devices_are_free_again_when_the_instance_is_gone() -> None:
    """Freed devices can be claimed again."""
    desk = await open_gpus(1)
    await desk.placer.place(asked(PAIR))
    await desk.ledger.write(Free(make_uuid("instance", 1)))
    await desk.follower.catch_up()
    assert await used(desk) == {}
    assert (await desk.placer.place(asked(PAIR, 2))).verdict is Verdict.PLACED


async def test_a_failed_build_takes_its_devices_along() -> None:
    """A failed build frees its devices and clears the assignment."""
    desk = await open_gpus(1)
    await desk.placer.place(asked(SHARE))
    vm = await desk.ledger.get(Instance, make_uuid("instance", 1))
    assert vm is not None
    driver = FakeDriver(FakeHost("host-1", fails=True), desk.clock)
    await HostExecutor(HostContext(vm.host or "", desk.gateway(), driver, desk.clock)).carry_out(vm)
    after = await desk.ledger.get(Instance, vm.uuid)
    assert after is not None
    assert (after.status, after.task, after.assignment) == (Status.BUILD, Task.SCHEDULING, None)
    assert await used(desk) == {}


async def test_a_flavor_that_cannot_be_read_is_refused() -> None:
    """A flavor with several groups and no policy is refused."""
    desk = await open_gpus(1)
    two = {f"resources{n}:{GPU_MILLI}": "1" for n in (1, 2)}
    with pytest.raises(InvalidInputError, match="group_policy"):
        await desk.placer.place(asked(two))
