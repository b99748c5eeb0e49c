"""Tests that no CPU or device is assigned twice, and that all are freed."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from berth.adapters.virt.fake import FakeDriver, FakeHost
from berth.agent.executor import HostContext, HostExecutor
from berth.config.policy_file import parse_policy
from berth.domain.compute.decision import Decision, Verdict
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.request import Request
from berth.domain.hardware.assignment import Assignment, CellShare
from berth.domain.hardware.numa import NumaCell
from berth.domain.hardware.pci import PciPool
from berth.domain.inventory.allocation import Allocation, Claim
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, PCPU, VCPU, Inventory
from berth.domain.ledger.write import Free, Guard, Put, Take, Unit
from berth.scheduling.evaluation.policy import Policy
from berth.services.decisions.device_locks import hardware_guard
from berth.services.requests.orders import PlaceOrder
from berth.testing.builders import make_flavor, make_host, make_request, make_service, make_uuid
from tests.unit.services import wiring
from tests.unit.services.wiring import Desk, TappedLedger, open_second, order_of

POLICY = parse_policy(
    """
    name = "hardware"
    pci_aliases = [{ name = "gpu", vendor_id = "10de", product_id = "1eb8" }]
    [[filters]]
    name = "ResourcesFilter"
    [[filters]]
    name = "NUMATopologyFilter"
    [[filters]]
    name = "PciPassthroughFilter"
    [[weighers]]
    name = "CPUWeigher"
    resource_class = "PCPU"
    multiplier = -1.0
    """,
    "test",
)


@pytest.fixture(autouse=True)
def policy(monkeypatch: pytest.MonkeyPatch) -> Policy:
    """Use a policy that packs hosts, so that schedulers choose the same one."""
    monkeypatch.setattr(wiring, "POLICY", POLICY)
    return POLICY


def host_unit(number: int) -> Unit:
    """Return the unit that adds a host of two cells, each with four CPUs, and three GPUs."""
    cells = tuple(
        NumaCell(cell, pcpuset=frozenset(range(cell * 4, cell * 4 + 4)), memory_mb=8192)
        for cell in range(2)
    )
    host = replace(
        make_host(number),
        numa_cells=cells,
        pci_pools=(PciPool("10de", "1eb8", numa_node=None, count=3),),
    )
    inventories = {PCPU: 8, VCPU: 8, MEMORY_MB: 16384, DISK_GB: 100}
    provider = Provider(
        host.uuid, host.name, inventories={k: Inventory(v) for k, v in inventories.items()}
    )
    return (Put(host), Put(make_service(number)), Put(provider))


async def open_hardware(hosts: int = 2) -> Desk:
    """Return a desk whose hosts have cells and devices."""
    ledger = TappedLedger()
    for number in range(1, hosts + 1):
        await ledger.write(*host_unit(number))
    desk = Desk(ledger)
    await desk.follower.start()
    return desk


def pinned(number: int, *, gpus: int = 0, vcpus: int = 2) -> PlaceOrder:
    """Return an order of one instance with dedicated CPUs."""
    specs = {"hw:cpu_policy": "dedicated"}
    if gpus:
        specs["pci_passthrough:alias"] = f"gpu:{gpus}"
    flavor = replace(make_flavor(vcpus=vcpus), extra_specs=specs)
    return order_of(replace(make_request(number), flavor=flavor))


async def given(ledger: TappedLedger) -> tuple[Counter[tuple[str, int]], Counter[str]]:
    """Return how often each CPU is assigned, and the number of assigned GPUs of each host."""
    cpus: Counter[tuple[str, int]] = Counter()
    gpus: Counter[str] = Counter()
    for one in await ledger.all(Instance):
        if one.host is None or one.assignment is None or one.status is Status.DELETED:
            continue
        for share in one.assignment.numa:
            cpus.update((one.host, cpu) for cpu in share.taken_cpus)
        gpus[one.host] += sum(device.count for device in one.assignment.devices)
    return cpus, gpus


async def test_what_was_chosen_is_kept_with_the_instance() -> None:
    """The assignment is recorded with the instance and the decision."""
    desk = await open_hardware(1)
    decision = await desk.placer.place(pinned(1, gpus=1))
    instance = await desk.ledger.get(Instance, make_uuid("instance", 1))
    assert instance is not None
    assert instance.assignment is not None
    assert instance.assignment == decision.placements[0].assignment
    (share,) = instance.assignment.numa
    assert (len(share.pinned), share.memory_mb) == (2, 512)
    assert [device.alias for device in instance.assignment.devices] == ["gpu"]
    assert decision.amounts == {PCPU: 2, MEMORY_MB: 512, DISK_GB: 1}


async def test_two_schedulers_never_give_a_cpu_or_a_device_twice() -> None:
    """Several schedulers that fill the same hosts assign each CPU and device once."""
    desk = await open_hardware(2)
    desks = [desk, await open_second(desk), await open_second(desk)]
    desk.ledger.before_commit = lambda _: asyncio.sleep(0)
    orders = [pinned(number, gpus=number % 2) for number in range(1, 15)]
    placed = await asyncio.gather(
        *(desks[n % 3].placer.place(order) for n, order in enumerate(orders))
    )
    cpus, gpus = await given(desk.ledger)
    assert sum(decision.verdict is Verdict.PLACED for decision in placed) == 8
    assert set(cpus.values()) == {1}
    assert len(cpus) == 16
    assert max(gpus.values()) <= 3
    for one in desks:
        await one.follower.catch_up()
        assert one.replica.held == 0
        hosts = one.replica.hosts
        free = [cell.free_count for row in hosts.alive_rows() for cell in hosts.numa.cells(row)]
        assert free == [0, 0, 0, 0]
        assert hosts.pci.free(hosts.all_rows).tolist() == [3 - gpus["host-1"], 3 - gpus["host-2"]]


async def test_ones_own_placements_do_not_make_the_next_one_stale() -> None:
    """A scheduler's own placements do not make its next plan stale."""
    desk = await open_hardware(1)
    one_by_one = [await desk.placer.place(pinned(number, vcpus=1)) for number in range(1, 5)]
    assert desk.replica.held == 4
    desk.ledger.before_commit = lambda _: asyncio.sleep(0)
    at_once = await asyncio.gather(
        *(desk.placer.place(pinned(number, vcpus=1)) for number in range(5, 9))
    )
    assert [decision.attempts for decision in (*one_by_one, *at_once)] == [1] * 8
    assert set((await given(desk.ledger))[0].values()) == {1}


async def test_a_plan_is_stale_when_somebody_else_chose_on_the_host_meanwhile() -> None:
    """A plan is stale if another scheduler chose hardware on the host meanwhile."""
    desk = await open_hardware(1)
    other = await open_second(desk)
    await other.placer.place(pinned(1))
    decision = await desk.placer.place(pinned(2))
    assert (decision.verdict, decision.attempts) == (Verdict.PLACED, 2)
    assert set((await given(desk.ledger))[0].values()) == {1}


async def test_ones_own_commits_do_not_hide_what_somebody_else_did_before_them() -> None:
    """A plan older than another scheduler's commit stays stale after an own commit."""
    desk = await open_hardware(1)
    other = await open_second(desk)
    waiting = asyncio.Event()
    seen: list[Sequence[Unit]] = []

    async def hold_up_the_first(units: Sequence[Unit]) -> None:
        seen.append(units)
        if len(seen) == 1:
            await waiting.wait()

    desk.ledger.before_commit = hold_up_the_first
    late = [asyncio.create_task(desk.placer.place(pinned(number))) for number in (1, 2)]
    await asyncio.sleep(1)
    turn = next(iter(desk.placer._hardware._locks.values()))
    assert turn.locked()
    await other.placer.place(pinned(3))
    waiting.set()
    assert [(await one).attempts for one in late] == [2, 2]
    assert (await desk.placer.place(pinned(4))).attempts == 1
    assert set((await given(desk.ledger))[0].values()) == {1}


async def test_orders_without_choices_carry_no_guard() -> None:
    """An order without chosen hardware has no hardware guard."""
    desk = await open_hardware(1)
    units: list[Unit] = []

    async def note(found: Sequence[Unit]) -> None:
        units.extend(found)

    desk.ledger.before_commit = note
    await desk.placer.place(order_of(make_request(1)))
    await desk.placer.place(pinned(2))
    guards = [[write.name for write in unit if isinstance(write, Guard)] for unit in units]
    assert guards == [[], [hardware_guard(make_uuid("host", 1))]]


async def test_a_deleted_instance_leaves_its_cpus_and_devices() -> None:
    """The CPUs and devices of a deleted instance can be assigned again."""
    desk = await open_hardware(1)
    await desk.placer.place(pinned(1, gpus=3, vcpus=4))
    assert (await desk.placer.place(pinned(2, gpus=1))).verdict is Verdict.REFUSED
    instance = await desk.ledger.get(Instance, make_uuid("instance", 1))
    assert instance is not None
    gone = replace(instance, status=Status.DELETED, task=None)
    await desk.ledger.write(Free(instance.uuid), Put(gone))
    await desk.follower.catch_up()
    hosts = desk.replica.hosts
    assert [cell.free_count for cell in hosts.numa.cells(0)] == [4, 4]
    assert hosts.pci.free(hosts.all_rows).tolist() == [3]
    assert (await desk.placer.place(pinned(3, gpus=3, vcpus=4))).verdict is Verdict.PLACED


async def test_a_failed_build_leaves_its_cpus_and_devices() -> None:
    """A failed build frees its CPUs and devices."""
    desk = await open_hardware(2)
    decision = await desk.placer.place(pinned(1, gpus=3))
    name = decision.placements[0].host
    driver = FakeDriver(FakeHost(name, fails=True), desk.clock)
    instance = await desk.ledger.get(Instance, make_uuid("instance", 1))
    assert instance is not None
    context = HostContext(instance.host or "", desk.gateway(), driver, desk.clock)
    await HostExecutor(context).carry_out(instance)
    await desk.follower.catch_up()
    hosts = desk.replica.hosts
    assert [cell.free_count for row in (0, 1) for cell in hosts.numa.cells(row)] == [4, 4, 4, 4]
    assert hosts.pci.free(hosts.all_rows).tolist() == [3, 3]
    homeless = await desk.ledger.get(Instance, make_uuid("instance", 1))
    assert homeless is not None
    assert (homeless.assignment, homeless.task) == (None, Task.SCHEDULING)


async def test_a_claim_that_is_refused_leaves_its_cpus_and_devices() -> None:
    """A refused claim leaves no CPUs or devices held."""
    desk = await open_hardware(1)
    claim = Claim("other", (Allocation("x", make_uuid("host", 1), {PCPU: 7}),))
    await desk.ledger.write(Take(claim))
    decision = await desk.placer.place(pinned(1, gpus=1))
    assert decision.verdict is Verdict.REFUSED
    hosts = desk.replica.hosts
    assert [cell.free_count for cell in hosts.numa.cells(0)] == [4, 4]
    assert hosts.pci.free(hosts.all_rows).tolist() == [3]


async def test_an_order_of_several_is_given_different_cpus() -> None:
    """The instances of one order get different CPUs."""
    desk = await open_hardware(2)
    flavor = replace(make_flavor(vcpus=2), extra_specs={"hw:cpu_policy": "dedicated"})
    request: Request = replace(make_request(1, count=8), flavor=flavor)
    decision = await desk.placer.place(order_of(request))
    assert decision.verdict is Verdict.PLACED
    cpus, _ = await given(desk.ledger)
    assert (len(cpus), set(cpus.values())) == (16, {1})


async def test_a_snapshot_holds_what_was_given() -> None:
    """A scheduler that starts later knows the assigned hardware from the snapshot."""
    desk = await open_hardware(1)
    decision = await desk.placer.place(pinned(1, gpus=2))
    second = await open_second(desk)
    assert [cell.free_count for cell in second.replica.hosts.numa.cells(0)].count(2) == 1
    assert second.replica.hosts.pci.free(slice(0, 1)).tolist() == [1]
    stored = await desk.ledger.get(Decision, decision.request_id)
    assert stored == decision
    assert isinstance(decision.placements[0].assignment, Assignment)
    assert isinstance(decision.placements[0].assignment.numa[0], CellShare)
