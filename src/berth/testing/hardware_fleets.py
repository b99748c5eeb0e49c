"""Random hosts with NUMA cells and devices, their usage, and flavors that request them.

Everything is derived from one `random.Random`, so that the same fleets can be made without
Hypothesis. Numbers are small and often equal, so that many guests only just fit or only just fail
to fit, which is where bugs are found.
"""

from collections.abc import Mapping, Sequence
from random import Random

from hypothesis import strategies as st

from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.host import Host
from berth.domain.hardware.assignment import Assignment, CellShare, DeviceShare
from berth.domain.hardware.numa import MemoryPages, NumaCell
from berth.domain.hardware.pci import DeviceType, PciPool

ALIASES: tuple[Mapping[str, str], ...] = (
    {"name": "gpu", "vendor_id": "10de", "product_id": "1eb8", "numa_policy": "required"},
    {"name": "nic", "vendor_id": "8086", "product_id": "154c", "device_type": "type-VF"},
    {"name": "port", "vendor_id": "8086", "product_id": "154c", "device_type": "type-PF"},
    {"name": "any-nic", "vendor_id": "8086", "product_id": "154c", "numa_policy": "preferred"},
    {"name": "qat", "vendor_id": "8086", "product_id": "0443", "numa_policy": "socket"},
    {"name": "either", "vendor_id": "8086", "product_id": "0443", "device_type": "type-PCI"},
    {"name": "either", "vendor_id": "10de", "product_id": "1eb8", "device_type": "type-PCI"},
    {"name": "movable", "vendor_id": "8086", "product_id": "0443", "live_migratable": "true"},
)
"""PCI aliases as in a policy; some of them match the same devices."""

_KINDS = (
    ("10de", "1eb8", DeviceType.STANDARD),
    ("8086", "154c", DeviceType.VIRTUAL),
    ("8086", "154c", DeviceType.PHYSICAL),
    ("8086", "0443", DeviceType.STANDARD),
    ("8086", "0443", DeviceType.VIRTUAL),
    ("8086", "0443", DeviceType.VDPA),
)
_TAGS: tuple[dict[str, str], ...] = (
    {},
    {},
    {},
    {},
    {},
    {},
    {"physical_network": "net1"},
    {"remote_managed": "true"},
    {"remote_managed": "false", "physical_network": "net1"},
    {"live_migratable": "true"},
    {"live_migratable": "false"},
)
_KB = 1024
_SIZES = ((), (4,), (4, 2048), (4, 2048), (4, 2048, 1048576), (2048,))
_MEMORY_MB = (1024, 2048, 4096, 8192)


def random_cells(rng: Random) -> tuple[NumaCell, ...]:
    """Return the NUMA cells of a host; one host in twelve has none."""
    if not rng.randrange(12):
        return ()
    count, threads = rng.choice((1, 2, 2, 2, 3, 4)), rng.choice((1, 2, 2, 2, 4))
    # Cell ids may have gaps and come in any order, so code must not use them as indices.
    ids = rng.sample(range(count + 1), count) if not rng.randrange(4) else range(count)
    sizes = rng.choice(_SIZES)
    sockets = rng.choice(("none", "pairs", "own"))
    made: list[NumaCell] = []
    for place, cell_id in enumerate(ids):
        socket = {"none": None, "pairs": place // 2, "own": place}[sockets]
        made.append(
            _cell(rng, cell_id, first=place * 32, threads=threads, sizes=sizes, socket=socket)
        )
    return tuple(made)


def _cell(
    rng: Random,
    cell_id: int,
    *,
    first: int,
    threads: int,
    sizes: Sequence[int],
    socket: int | None,
) -> NumaCell:
    cores = rng.choice((1, 2, 3, 4, 6, 8))
    cpus = list(range(first, first + cores * threads))
    siblings = tuple(frozenset(cpus[core::cores]) for core in range(cores))
    split = rng.choice((0, 0, 0, 1, threads, len(cpus) // 2, len(cpus) // 2, len(cpus)))
    shared, dedicated = frozenset(cpus[:split]), frozenset(cpus[split:])
    # Hosts that do not distinguish shared from dedicated CPUs report one set as both.
    if not rng.randrange(6):
        shared = dedicated = frozenset(cpus)
    memory_mb = rng.choice(_MEMORY_MB)
    pages = tuple(
        MemoryPages(size, total, rng.choice((0, 0, total // 4)))
        for size in sizes
        for total in (max(memory_mb * _KB // len(sizes) // size, int(size == sizes[-1])),)
    )
    return NumaCell(cell_id, shared, dedicated, siblings, memory_mb, pages, socket)


def random_pools(rng: Random, cells: Sequence[NumaCell]) -> tuple[PciPool, ...]:
    """Return up to six device pools, each near a NUMA cell of the host, an unknown one or none."""
    nodes = [cell.cell_id for cell in cells] or [0]
    pools: dict[str, PciPool] = {}
    for number in range(rng.choice((0, 1, 2, 3, 4, 6))):
        vendor_id, product_id, dev_type = rng.choice(_KINDS)
        pool = PciPool(
            # Hosts report hexadecimal ids in upper or lower case; aliases must match both.
            vendor_id=rng.choice((vendor_id, vendor_id.upper())),
            product_id=product_id,
            dev_type=dev_type,
            numa_node=rng.choice((*nodes, *nodes, None, 9)),
            address=rng.choice(("", "", f"0000:0{number % 2}:00.0")),
            tags=rng.choice(_TAGS),
            count=1 if dev_type is DeviceType.PHYSICAL else rng.choice((1, 2, 3)),
        )
        pools[pool.key] = pool
    return tuple(pools.values())


def random_use(
    rng: Random, cells: Sequence[NumaCell], pools: Sequence[PciPool]
) -> list[Assignment]:
    """Return the assignments of a host's instances, each with a share of a NUMA cell or a pool."""
    used: list[Assignment] = []
    free = {cell.cell_id: sorted(cell.pcpuset) for cell in cells}
    for cell in cells:
        for _ in range(rng.choice((0, 0, 0, 1, 2))):
            mine = free[cell.cell_id]
            taken = sorted(rng.sample(mine, rng.randint(0, len(mine) // 2)))
            free[cell.cell_id] = [cpu for cpu in mine if cpu not in taken]
            used.append(Assignment(numa=(_share(rng, cell, taken),)))
    for pool in pools:
        count = rng.choice((0, 0, 0, 1, pool.count))
        if count:
            used.append(Assignment(devices=(DeviceShare(pool.key, count),)))
    return used


def _share(rng: Random, cell: NumaCell, taken: Sequence[int]) -> CellShare:
    sizes = [pages.size_kb for pages in cell.mempages]
    size = rng.choice((None, *sizes))
    memory_mb = rng.choice((0, 256, 512))
    # Memory in large pages is a multiple of the page size.
    step_mb = (size or min(sizes, default=1)) // _KB
    if step_mb:
        memory_mb -= memory_mb % step_mb
    return CellShare(
        host_cell=cell.cell_id,
        memory_mb=memory_mb,
        page_size_kb=size,
        shared_cpus=rng.choice((0, 0, 1, 2)),
        pinned=tuple(enumerate(taken)),
    )


def random_flavor(rng: Random) -> Flavor:
    """Return a flavor that requests NUMA cells, pinning, pages or devices, perhaps invalidly."""
    vcpus = rng.choice((1, 2, 2, 2, 3, 4, 4, 6, 8))
    memory_mb = rng.choice((0, 256, 256, 512, 512, 1024, 2048))
    specs: dict[str, str] = {}
    _ask_cpus(rng, specs, vcpus)
    _ask_cells(rng, specs, vcpus, memory_mb)
    if not rng.randrange(3):
        specs["hw:mem_page_size"] = rng.choice(("small", "large", "any", "4", "2048", "2MB", "1GB"))
    if not rng.randrange(3):
        aliases = rng.sample(
            sorted({one["name"] for one in ALIASES}), rng.choice((1, 1, 1, 1, 2, 3))
        )
        asked = (f"{name}:{rng.choice((1, 1, 1, 2))}" for name in aliases)
        specs["pci_passthrough:alias"] = ",".join(asked)
        if not rng.randrange(3):
            policy = rng.choice(("required", "legacy", "preferred", "socket"))
            specs["hw:pci_numa_affinity_policy"] = policy
    return Flavor("1", "random", vcpus, memory_mb, extra_specs=specs)


def _ask_cpus(rng: Random, specs: dict[str, str], vcpus: int) -> None:
    policy = rng.choice(("", "shared", "dedicated", "dedicated", "dedicated", "mixed", "PCPU"))
    if policy == "PCPU":
        specs["resources:PCPU"] = str(vcpus)
    elif policy:
        specs["hw:cpu_policy"] = policy
    # One in sixty flavors has the option without the policy that it requires.
    if policy == "mixed" or not rng.randrange(60):
        specs["hw:cpu_dedicated_mask"] = rng.choice(("0", "^0", "0-1", "1", "^1-2"))
    if policy in ("dedicated", "mixed", "PCPU") or not rng.randrange(60):
        threads = rng.choice(("", "", "prefer", "require", "require", "isolate"))
        if threads:
            specs["hw:cpu_thread_policy"] = threads
        if not rng.randrange(4):
            specs["hw:emulator_threads_policy"] = rng.choice(("share", "isolate", "isolate"))
        # An isolated emulator thread takes one more dedicated CPU, which the flavor must request.
        if policy == "PCPU" and specs.get("hw:emulator_threads_policy") == "isolate":
            specs["resources:PCPU"] = str(vcpus + 1)
    if not rng.randrange(30):
        specs |= {"hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": rng.choice(("^0", "0", "^0-1"))}


def _ask_cells(rng: Random, specs: dict[str, str], vcpus: int, memory_mb: int) -> None:
    if rng.choice((True, True, True, False, False)):
        return
    nodes = rng.choice((1, 2, 2, 2, 3, 4))
    specs["hw:numa_nodes"] = str(nodes)
    if rng.randrange(3) or vcpus < nodes:
        return
    # From here on, NUMA cells are asymmetric: each has its own list of CPUs and share of memory.
    order = rng.sample(range(vcpus), vcpus)
    cuts = sorted(rng.sample(range(1, vcpus), nodes - 1)) if nodes > 1 else []
    parts = [order[a:b] for a, b in zip([0, *cuts], [*cuts, vcpus], strict=True)]
    left_mb = memory_mb
    for number, part in enumerate(parts):
        mine_mb = left_mb if number == nodes - 1 else rng.choice((0, left_mb // 2, left_mb // 4))
        left_mb -= mine_mb
        specs[f"hw:numa_cpus.{number}"] = ",".join(str(cpu) for cpu in part)
        specs[f"hw:numa_mem.{number}"] = str(mine_mb)


def random_image(rng: Random) -> Image | None:
    """Return, one time in eight, an image with one topology property, and otherwise None."""
    if rng.randrange(8):
        return None
    properties = rng.choice(
        (
            {"hw_cpu_policy": "dedicated"},
            {"hw_cpu_policy": "shared"},
            {"hw_cpu_thread_policy": "require"},
            {"hw_numa_nodes": "2"},
            {"hw_mem_page_size": "2048"},
            {"hw_pci_numa_affinity_policy": "preferred"},
            {"trait:HW_CPU_HYPERTHREADING": "required"},
        )
    )
    return Image("image", properties=properties)


def random_host(rng: Random, name: str = "host") -> Host:
    """Return a host with random NUMA cells and device pools."""
    cells = random_cells(rng)
    pools = random_pools(rng, cells)
    return Host(f"uuid-{name}", name, name, numa_cells=cells, pci_pools=pools)


def generators() -> st.SearchStrategy[Random]:
    """Draw a seeded generator for the functions of this module."""
    return st.integers(0, 2**63 - 1).map(Random)
