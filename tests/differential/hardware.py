"""Random NUMA cells and PCI devices, assignments of them, and requests for them."""

from collections.abc import Mapping, Sequence

from berth.domain.compute.host import Host
from berth.domain.hardware.assignment import Assignment, CellShare, DeviceShare
from berth.domain.hardware.numa import MemoryPages, NumaCell
from berth.domain.hardware.pci import DeviceType, PciPool
from tests.differential.drawing import Draw

KB_PER_MB = 1_024
PAGES_KB = (4, 2_048, 1_048_576)
VENDOR = "8086"

ALIASES: Sequence[Sequence[Mapping[str, str]]] = (
    (
        {"name": "nic", "vendor_id": VENDOR, "product_id": "1520"},
        {"name": "gpu", "vendor_id": "10de", "product_id": "1db4"},
    ),
    (
        {"name": "nic", "vendor_id": VENDOR, "product_id": "1520", "device_type": "type-VF"},
        {"name": "gpu", "vendor_id": "10de", "product_id": "1DB4", "numa_policy": "required"},
    ),
    (
        {"name": "nic", "vendor_id": VENDOR, "product_id": "1520", "numa_policy": "preferred"},
        {"name": "gpu", "vendor_id": "10de", "product_id": "1db4", "device_type": "type-PCI"},
        {"name": "gpu", "vendor_id": "10de", "product_id": "1db5", "device_type": "type-PCI"},
    ),
    (
        {"name": "nic", "vendor_id": VENDOR, "product_id": "1520", "device_type": "type-PF"},
        {
            "name": "gpu",
            "vendor_id": "10de",
            "product_id": "1db4",
            "numa_policy": "socket",
            "live_migratable": "yes",
        },
    ),
)
"""PCI aliases of a policy, as Nova's option has them."""

_PRODUCTS = ((VENDOR, "1520"), (VENDOR, "1520"), ("10de", "1db4"), ("10de", "1db5"))
_NIC_TYPES = (*DeviceType, DeviceType.PHYSICAL, DeviceType.VIRTUAL)
_TAGS: Sequence[Mapping[str, str]] = (
    {},
    {},
    {},
    {"live_migratable": "true"},
    {"live_migratable": "false"},
    {"remote_managed": "true"},
    {"physical_network": "net-1", "remote_managed": "false"},
)

_SIZES = ("small", "small", "large", "any", "any", "2048", "4", "1GB", "2MB", "1048576")
_NEAR = ("required", "preferred", "legacy", "socket")
_ODD_SPECS: Mapping[str, Sequence[str]] = {
    "hw:numa_nodes": ("0", "-1", "abc", "3", "5", " 2 "),
    "hw:cpu_policy": ("Dedicated", "none"),
    "hw:cpu_thread_policy": ("never",),
    "hw:mem_page_size": ("0", "-1", "8", "huge", "1.5GB", "2MiB", "", "16Mb", "32Kb", "2Mb"),
    "hw:cpu_dedicated_mask": ("0-1", "^0", "1", "0-99", "x"),
    "hw:cpu_realtime": ("yes", "no"),
    "hw:cpu_realtime_mask": ("^0", "1"),
    "hw:numa_cpus.0": ("0", "0-1", "0,2"),
    "hw:numa_cpus.1": ("1", "2-3", "1,3"),
    "hw:numa_mem.0": ("512", "256"),
    "hw:numa_mem.1": ("512", "1536"),
    "hw:locked_memory": ("true", "no"),
    "resources:PCPU": ("1", "2", "4"),
    "resources:VCPU": ("1", "2"),
    "trait:HW_CPU_HYPERTHREADING": ("required", "forbidden"),
    "hw:pci_numa_affinity_policy": ("strict",),
    "pci_passthrough:alias": ("gpu", "gpu:0", "gpu:x", "unknown:1", "gpu:1,", ""),
}
_PROPERTIES: Mapping[str, Sequence[str]] = {
    "hw_numa_nodes": ("1", "2"),
    "hw_cpu_policy": ("dedicated", "shared"),
    "hw_cpu_thread_policy": ("prefer", "require", "isolate"),
    "hw_mem_page_size": ("large", "2048", "any"),
    "hw_pci_numa_affinity_policy": ("required", "preferred"),
    "hw_locked_memory": ("true", "no"),
    "trait:HW_CPU_HYPERTHREADING": ("required",),
}
_ASKED = (
    "nic:1",
    "nic:2",
    "gpu:1",
    "nic:1",
    "gpu:1",
    "gpu:2",
    "nic:1,gpu:1",
    "gpu:1,gpu:1",
    "nic:3",
    "nic:1,nic:1",
)
_SPLITS: Sequence[Mapping[str, str]] = (
    {"hw:numa_cpus.0": "0", "hw:numa_cpus.1": "1-3"},
    {"hw:numa_cpus.0": "0-2", "hw:numa_cpus.1": "3"},
    {"hw:numa_cpus.0": "1,3", "hw:numa_cpus.1": "0,2"},
)
VCPUS = (1, 2, 2, 4, 4, 8)
MEMORY_MB = (512, 1_024, 1_024, 2_048, 1_000)


# ---- hosts --------------------------------------------------------------------------------------


def draw_cells(draw: Draw) -> tuple[NumaCell, ...]:
    """Draw up to four NUMA cells of a host."""
    count = draw.of((0, 1, 2, 2, 2, 2, 4, 4))
    size = draw.of((4, 4, 8, 2, 6))
    kind = draw.of(("shared", "dedicated", "split", "split", "same", "same", "any"))
    threads = draw.of((1, 1, 2, 2, 4))
    return tuple(_cell(draw, number, size, kind, threads) for number in range(count))


def _cell(draw: Draw, number: int, size: int, kind: str, threads: int) -> NumaCell:
    cpus = range(number * size, (number + 1) * size)
    cores = [frozenset(cpus[first : first + threads]) for first in range(0, size, threads)]
    shared, dedicated = _sets(draw, cpus, kind, threads)
    seen = [core & (shared | dedicated) for core in cores]
    memory_mb = draw.of((4_096, 8_192, 16_384, 16_384, 16_384, 1_024, 0))
    return NumaCell(
        cell_id=number,
        cpuset=shared,
        pcpuset=dedicated,
        siblings=() if threads == 1 and draw.seldom(2) else tuple(core for core in seen if core),
        memory_mb=memory_mb,
        mempages=_pages(draw, memory_mb),
        socket=None if draw.seldom(8) else number // 2,
    )


def _sets(
    draw: Draw, cpus: Sequence[int], kind: str, threads: int
) -> tuple[frozenset[int], frozenset[int]]:
    every = frozenset(cpus)
    if kind == "shared":
        return every, frozenset()
    if kind == "dedicated":
        return frozenset(), every
    if kind == "same":
        return every, every
    if kind == "split":
        half = frozenset(cpus[: threads * max(1, len(cpus) // threads // 2)])
        return half, every - half
    some = frozenset(draw.some(cpus, len(cpus)))
    return some, every - some - frozenset(draw.some(cpus, 1))


def _pages(draw: Draw, memory_mb: int) -> tuple[MemoryPages, ...]:
    """Draw the memory pages of a cell, of no, one or several sizes."""
    pages: list[MemoryPages] = []
    sizes = draw.of(((4,), (4, 2_048), PAGES_KB, (), draw.some(PAGES_KB, 3)))
    for size_kb in sizes:
        most = memory_mb * KB_PER_MB // size_kb
        total = draw.of((most, most, most // 2, most // 4, 0))
        pages.append(MemoryPages(size_kb, total, draw.of((0, 0, 0, total // 8))))
    return tuple(pages)


def draw_pools(draw: Draw, cells: Sequence[NumaCell]) -> tuple[PciPool, ...]:
    """Draw up to six different device pools."""
    nodes = (*(cell.cell_id for cell in cells), None, 7)
    pools: dict[str, PciPool] = {}
    for _ in range(draw.of((0, 2, 4, 6))):
        vendor_id, product_id = draw.of(_PRODUCTS)
        is_nic = vendor_id == VENDOR
        pool = PciPool(
            vendor_id=vendor_id,
            product_id=product_id,
            dev_type=draw.of(_NIC_TYPES) if is_nic else DeviceType.STANDARD,
            numa_node=draw.of(nodes),
            address=draw.of(("", "0000:01:00.0", "0000:02:00.0")),
            tags=draw.of(_TAGS),
            count=draw.of((0, 1, 1, 2, 4, 4, 99, 150)),
        )
        pools[pool.key] = pool
    return tuple(pools.values())


# ---- instances ----------------------------------------------------------------------------------


def draw_assignment(draw: Draw, host: Host, taken: set[int]) -> Assignment | None:
    """Draw the hardware that an instance has of its host, None if it has none.

    Args:
        draw: the random source.
        host: its host.
        taken: the dedicated CPUs that other instances have there; its own are added.
    """
    numa = tuple(_share(draw, cell, taken) for cell in draw.some(host.numa_cells, 2))
    devices = tuple(
        DeviceShare(pool.key, draw.count(1, pool.count), "gpu")
        for pool in draw.some(host.pci_pools, 1)
        if pool.count
    )
    return Assignment(numa=numa, devices=devices) if numa or devices else None


def _share(draw: Draw, cell: NumaCell, taken: set[int]) -> CellShare:
    sizes = [pages.size_kb for pages in cell.mempages]
    size_kb = draw.of((None, *sizes))
    unit_mb = max((size_kb or min(sizes, default=4)) // KB_PER_MB, 1)
    free = sorted(cell.pcpuset - taken)
    mine = [] if draw.seldom(3) else draw.some(free, 3)
    taken.update(mine)
    pinned = tuple(enumerate(mine[:2]))
    return CellShare(
        host_cell=cell.cell_id,
        memory_mb=unit_mb * draw.of((0, 0, 1, 256 // unit_mb, 1_024 // unit_mb)),
        page_size_kb=size_kb,
        shared_cpus=draw.of((0, 0, 1, 2, 8)) if cell.cpuset else 0,
        pinned=pinned,
        idle_cpus=frozenset(mine[2:]),
    )


# ---- requests -----------------------------------------------------------------------------------


def draw_hardware_specs(draw: Draw) -> dict[str, str]:
    """Draw extra specs that ask for a topology or devices, rarely unreadable ones."""
    specs: dict[str, str] = {}
    if draw.seldom(2):
        specs["hw:numa_nodes"] = draw.of(("1", "1", "2", "2", "4"))
    policy = draw.of(("", "", "dedicated", "dedicated", "mixed", "shared"))
    if policy:
        specs["hw:cpu_policy"] = policy
    if policy in ("dedicated", "mixed") and draw.seldom(2):
        specs["hw:cpu_thread_policy"] = draw.of(("prefer", "require", "require", "isolate"))
    if policy in ("dedicated", "mixed") and draw.seldom(3):
        specs["hw:emulator_threads_policy"] = draw.of(("isolate", "isolate", "share"))
    if policy == "mixed" and not draw.seldom(8):
        specs["hw:cpu_dedicated_mask"] = draw.of(("1", "0", "^0", "0-1", "1,3"))
    elif policy in ("dedicated", "mixed") and draw.seldom(3):
        specs["hw:cpu_realtime"] = draw.of(("yes", "true", "no"))
        specs["hw:cpu_realtime_mask"] = draw.of(("^0", "1", "^0-1", "0-1", "0-9"))
    if draw.seldom(4):
        specs["hw:mem_page_size"] = draw.of(_SIZES)
    if specs.get("hw:numa_nodes") == "2" and draw.seldom(3):
        specs |= draw.of(_SPLITS)
        specs |= {"hw:numa_mem.0": "512", "hw:numa_mem.1": draw.of(("512", "1536"))}
    if not policy and draw.seldom(6):
        specs["resources:PCPU"] = draw.of(("1", "2", "4"))
    return specs | _device_specs(draw) | _odd_specs(draw)


def _device_specs(draw: Draw) -> dict[str, str]:
    specs: dict[str, str] = {}
    if draw.seldom(2):
        specs["pci_passthrough:alias"] = draw.of(_ASKED)
    if draw.seldom(4):
        specs["hw:pci_numa_affinity_policy"] = draw.of(_NEAR)
    return specs


def _odd_specs(draw: Draw) -> dict[str, str]:
    if not draw.seldom(12):
        return {}
    return {key: draw.of(_ODD_SPECS[key]) for key in draw.some(list(_ODD_SPECS), 2)}


def draw_hardware_properties(draw: Draw) -> dict[str, str]:
    """Draw image properties that ask for a topology."""
    return {key: draw.of(_PROPERTIES[key]) for key in draw.some(list(_PROPERTIES), 2)}
