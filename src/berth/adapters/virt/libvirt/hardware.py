"""What a guest has of its host for itself: CPUs, NUMA cells, large pages and PCI devices."""

from collections.abc import Iterator
from xml.etree import ElementTree as ET

from berth.adapters.virt.libvirt.floating import Floating, listed
from berth.adapters.virt.libvirt.record import Record
from berth.domain.compute.build_failure import BuildError, FailureCause
from berth.domain.compute.instance import Instance
from berth.domain.errors import DriverError
from berth.domain.hardware.assignment import CellShare

_KB_PER_MB = 1024


def hardware_of(record: Record, floating: Floating) -> Iterator[ET.Element]:
    """Yield the elements that a description gets for what its guest has of the host."""
    if record.cells:
        yield from _cells(record, floating)
    for address in record.devices:
        yield _device(address)


def check_hardware(instance: Instance) -> tuple[CellShare, ...]:
    """Return what an instance has of the host's NUMA cells.

    Raises:
        BuildError: its parts do not add up to what its flavor asks for.
    """
    cells = instance.assignment.numa if instance.assignment is not None else ()
    if not cells:
        return ()
    vcpus = sum(cell.shared_cpus + len(cell.pinned) for cell in cells)
    memory_mb = sum(cell.memory_mb for cell in cells)
    flavor = instance.flavor
    if (vcpus, memory_mb) != (flavor.vcpus, flavor.memory_mb):
        raise BuildError(
            f"the NUMA cells of instance {instance.uuid} have {vcpus} CPUs and {memory_mb} MiB, "
            f"its flavor {flavor.vcpus} and {flavor.memory_mb}",
            cause=FailureCause.CLAIM,
        )
    return cells


def check_devices(instance: Instance, record: Record) -> None:
    """Refuse to give a guest that is here other devices than it has.

    Raises:
        DriverError: it is to have more of them, or fewer.
    """
    shares = instance.assignment.devices if instance.assignment is not None else ()
    wanted = sum(share.count for share in shares)
    if wanted != len(record.devices):
        raise DriverError(
            f"guest {record.uuid} has {len(record.devices)} PCI devices and is to have {wanted}; "
            "that takes a move to another host, or a rebuild"
        )


def check_movable(instance: Instance) -> None:
    """Refuse a live migration of a guest that has parts of its host.

    Raises:
        BuildError: it has; no host can take it in.
    """
    assignment = instance.assignment
    if assignment is not None and (assignment.numa or assignment.devices):
        reason = f"instance {instance.uuid} has NUMA cells or PCI devices of its host; move it cold"
        raise BuildError(reason, blames_host=False)


def guest_cpus(cells: tuple[CellShare, ...]) -> list[list[int]]:
    """Return the guest's CPUs in each of its cells: those pinned there, and floating ones."""
    pinned = [{guest for guest, _ in cell.pinned} for cell in cells]
    count = sum(cell.shared_cpus + len(cell.pinned) for cell in cells)
    floating = iter(sorted(set(range(count)) - set().union(*pinned)))
    return [
        sorted({*own, *(next(floating) for _ in range(cell.shared_cpus))})
        for own, cell in zip(pinned, cells, strict=True)
    ]


def _cells(record: Record, floating: Floating) -> Iterator[ET.Element]:
    cells, cpus = record.cells, guest_cpus(record.cells)
    yield _tuning(cells, cpus, floating)
    memory = ET.Element("numatune")
    nodes = listed(cell.host_cell for cell in cells)
    ET.SubElement(memory, "memory", {"mode": "strict", "nodeset": nodes})
    numa = ET.Element("numa")
    for number, (cell, own) in enumerate(zip(cells, cpus, strict=True)):
        where = {"cellid": str(number), "mode": "strict", "nodeset": str(cell.host_cell)}
        ET.SubElement(memory, "memnode", where)
        given = {
            "id": str(number),
            "cpus": listed(own),
            "memory": str(cell.memory_mb * _KB_PER_MB),
        }
        ET.SubElement(numa, "cell", {**given, "unit": "KiB"})
    yield memory
    processor = ET.Element("cpu")
    processor.append(numa)
    yield processor
    if any(cell.page_size_kb for cell in cells):
        yield _pages(cells)


def _tuning(cells: tuple[CellShare, ...], cpus: list[list[int]], floating: Floating) -> ET.Element:
    tuning = ET.Element("cputune")
    for cell, own in zip(cells, cpus, strict=True):
        pins = {guest: str(host) for guest, host in cell.pinned}
        # Where a cell has no CPU to float over, they float over the host's.
        if there := listed(floating.of_cells.get(cell.host_cell, ())):
            pins = dict.fromkeys(own, there) | pins
        for guest, host in pins.items():
            ET.SubElement(tuning, "vcpupin", {"vcpu": str(guest), "cpuset": host})
    threads = frozenset(cpu for cell in cells for cpu in cell.emulator_cpus)
    pinned = frozenset(host for cell in cells for _, host in cell.pinned)
    # QEMU's own threads work for the guest, so they stay where its CPUs are.
    if where := threads or pinned:
        ET.SubElement(tuning, "emulatorpin", {"cpuset": listed(where)})
    return tuning


def _pages(cells: tuple[CellShare, ...]) -> ET.Element:
    backing = ET.Element("memoryBacking")
    pages = ET.SubElement(backing, "hugepages")
    for number, cell in enumerate(cells):
        if cell.page_size_kb:
            given = {"size": str(cell.page_size_kb), "unit": "KiB", "nodeset": str(number)}
            ET.SubElement(pages, "page", given)
    ET.SubElement(backing, "nosharepages")
    return backing


def _device(address: str) -> ET.Element:
    where, _, function = address.partition(".")
    domain, bus, slot = where.split(":")
    device = ET.Element("hostdev", {"mode": "subsystem", "type": "pci", "managed": "yes"})
    source = ET.SubElement(device, "source")
    given = {"domain": domain, "bus": bus, "slot": slot, "function": function}
    ET.SubElement(source, "address", {name: f"0x{digits}" for name, digits in given.items()})
    return device
