"""The host API."""

from dataclasses import replace

from berth.domain.compute.build_failure import FailureCause, FailureCount
from berth.domain.compute.host import Attestation, Host, Service
from berth.domain.hardware.assignment import Assignment, CellShare, DeviceShare
from berth.domain.hardware.numa import MemoryPages, NumaCell
from berth.domain.hardware.pci import DeviceType, PciPool
from berth.domain.inventory.allocation import Allocation, Claim
from berth.domain.ledger.write import Put, Take
from berth.testing.builders import make_instance
from berth.testing.fleets import GPU_MILLI, Child, children_of, gpus
from tests.unit.api.cloud import Stack
from tests.unit.api.conftest import MakeStack

PATH = "/berth/v1/hosts"


async def test_a_host_is_shown_with_all_that_counts(stack: Stack) -> None:
    """A host is found by name or uuid and shown with its inventories and service."""
    await stack.server(availability_zone="nova:host-0")
    shown = (await stack.ask("GET", f"{PATH}/host-0")).body
    assert shown["inventories"]["MEMORY_MB"] == {
        "total": 65_536,
        "reserved": 512,
        "min_unit": 1,
        "max_unit": 65_536,
        "step_size": 1,
        "allocation_ratio": 1.0,
        "allocation_ratio_origin": "the host's own",
        "capacity": 65_024,
        "used": 4096,
        "free": 60_928,
    }
    assert shown["num_instances"] == 1
    assert shown["service"]["is_up"] is True
    assert (await stack.ask("GET", f"{PATH}/{shown['uuid']}")).body == shown
    assert (await stack.ask("GET", f"{PATH}/none")).status == 404


async def test_metrics_attestations_and_failures_are_shown(stack: Stack) -> None:
    """An expired attestation is shown as unknown."""
    shown = (await stack.ask("GET", f"{PATH}/host-0")).body
    assert (shown["metrics"], shown["attestation"]) == ({}, None)
    host = await stack.ledger.get(Host, shown["uuid"])
    service = await stack.ledger.get(Service, "host-0")
    assert host is not None
    assert service is not None
    until_s = stack.clock.now_s() + 60
    attested = replace(
        service,
        attestations={host.node: Attestation("trusted", until_s)},
        failed_builds=2,
        build_failures=(FailureCount(None, FailureCause.IMAGE, 2.0, 5.0),),
        failure_level=0.5,
    )
    await stack.ledger.commit([(Put(replace(host, metrics={"cpu.percent": 12.5})), Put(attested))])
    shown = (await stack.ask("GET", f"{PATH}/host-0")).body
    assert shown["metrics"] == {"cpu.percent": 12.5}
    assert (shown["service"]["failed_builds"], shown["service"]["failure_level"]) == (2, 0.5)
    failures = [{"project_id": None, "cause": "image", "level": 2.0, "at_s": 5.0}]
    assert shown["service"]["build_failures"] == failures
    assert shown["attestation"] == {"level": "trusted", "valid_until_s": until_s}
    await stack.clock.sleep(61)
    assert (await stack.ask("GET", f"{PATH}/host-0")).body["attestation"]["level"] == "unknown"


async def test_child_providers_are_shown(stack: Stack) -> None:
    """Child providers are shown with their parents, traits, inventories and usage."""
    shown = (await stack.ask("GET", f"{PATH}/host-0")).body
    assert shown["children"] == []
    root = shown["uuid"]
    gpu, part = children_of(root, (*gpus(1000), Child("slice", under="GPU 0")))
    gpu = replace(gpu, traits=frozenset({"CUSTOM_A100"}))
    taken = Allocation("vm", gpu.uuid, {GPU_MILLI: 300})
    await stack.ledger.commit([(Put(part), Put(gpu)), (Take(Claim("k", (taken,))),)])
    children = (await stack.ask("GET", f"{PATH}/host-0")).body["children"]
    assert [(one["name"], one["parent_uuid"]) for one in children] == [
        ("GPU 0", root),
        ("slice", gpu.uuid),
    ]
    assert (children[0]["uuid"], children[0]["traits"]) == (gpu.uuid, ["CUSTOM_A100"])
    inventory = children[0]["inventories"][GPU_MILLI]
    assert (inventory["capacity"], inventory["used"], inventory["free"]) == (1000, 300, 700)
    assert children[1]["inventories"] == {}


async def test_numa_cells_and_devices_are_shown(stack: Stack) -> None:
    """NUMA cells and PCI pools are shown with what is free of them."""
    shown = (await stack.ask("GET", f"{PATH}/host-0")).body
    assert (shown["numa_cells"], shown["pci_pools"]) == ([], [])
    host = await stack.ledger.get(Host, shown["uuid"])
    assert host is not None
    cpus, pages = frozenset(range(4)), (MemoryPages(4, 1024, 256),)
    cell = NumaCell(1, frozenset({8}), cpus, (frozenset({0, 2}),), 64, pages, 0)
    pool = PciPool("10de", "1eb8", DeviceType.VIRTUAL, 1, "0000:01:00.0", {"rack": "1"}, 4)
    given = Assignment(
        numa=(CellShare(1, 2, None, 3, ((0, 0), (1, 2))),), devices=(DeviceShare(pool.key, 3),)
    )
    guest = replace(make_instance(1, host=host.name), node=host.node, assignment=given)
    reported = replace(host, numa_cells=(cell,), pci_pools=(pool,))
    await stack.ledger.commit([(Put(reported), Put(guest))])
    shown = (await stack.ask("GET", f"{PATH}/host-0")).body
    assert shown["numa_cells"] == [
        {
            "cell_id": 1,
            "socket": 0,
            "cpuset": [8],
            "pcpuset": [0, 1, 2, 3],
            "siblings": [[0, 2]],
            "memory_mb": 64,
            "mempages": [{"size_kb": 4, "total": 1024, "reserved": 256, "free": 256}],
            "free_cpus": [1, 3],
            "shared_used": 3,
            "memory_used_mb": 2,
        }
    ]
    assert shown["pci_pools"] == [
        {
            "vendor_id": "10de",
            "product_id": "1eb8",
            "dev_type": "type-VF",
            "numa_node": 1,
            "address": "0000:01:00.0",
            "tags": {"rack": "1"},
            "count": 4,
            "free": 1,
        }
    ]


async def test_hosts_are_listed_by_name(make_stack: MakeStack) -> None:
    """All hosts are listed unless a limit is given."""
    stack = await make_stack(hosts=600)
    listed = (await stack.ask("GET", PATH)).body["hosts"]
    names = [one["name"] for one in listed]
    assert names == sorted(f"host-{index}" for index in range(600))
    assert (await stack.ask("GET", f"{PATH}/host-7")).body in listed
    page = (await stack.ask("GET", f"{PATH}?limit=2&marker={listed[3]['uuid']}")).body["hosts"]
    assert page == listed[4:6]
    assert (await stack.ask("GET", f"{PATH}?marker=none")).status == 400


async def test_there_may_be_none(make_stack: MakeStack) -> None:
    """Without hosts, the list is empty."""
    stack = await make_stack(hosts=0)
    assert (await stack.ask("GET", PATH)).body == {"hosts": []}
