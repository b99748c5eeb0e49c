"""The hardware of a host that guests are assigned: CPUs, NUMA cells, huge pages, PCI devices."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final
from xml.etree import ElementTree as ET

from berth.adapters.virt.libvirt.binding import XML_INACTIVE, Connect
from berth.adapters.virt.libvirt.record import GuestRecord
from berth.adapters.virt.machine_facts import Linux
from berth.domain.compute.build_failure import BuildError, FailureCause
from berth.domain.compute.instance import Instance
from berth.domain.errors import DriverError
from berth.domain.hardware.assignment import Assignment, CellShare

_KB_PER_MB = 1024
_PARTS = ("domain", "bus", "slot")


@dataclass(frozen=True, slots=True)
class FloatingCpus:
    """The host CPUs on which unpinned guest CPUs run.

    `everywhere` applies to guests without NUMA cells. For other guests, `of_cells` has the CPUs of
    each NUMA cell of the host, by the cell's id. An empty set leaves the choice to libvirt.
    """

    everywhere: frozenset[int] = frozenset()
    of_cells: Mapping[int, frozenset[int]] = field(default_factory=dict[int, frozenset[int]])


ANYWHERE: Final = FloatingCpus()


def hardware_elements(record: GuestRecord, floating: FloatingCpus) -> Iterator[ET.Element]:
    """Yield the XML elements for the hardware of a guest."""
    if record.cells:
        yield from _cells(record, floating)
    for address in record.devices:
        yield _device(address)


def floating_cpus_of(
    record: GuestRecord, dedicated: frozenset[int], linux: Linux | None = None
) -> FloatingCpus:
    """Return the host CPUs on which the unpinned CPUs of a guest run: all that are not dedicated.

    The result is `ANYWHERE` if no CPUs are dedicated and the guest has no NUMA cells.

    Args:
        record: the guest's record.
        dedicated: the host CPUs that are reserved for pinned guest CPUs.
        linux: the machine; by default this one.
    """
    if not dedicated and not record.cells:
        return ANYWHERE
    linux = linux or Linux()
    online = linux.cpu().online
    cells = linux.numa_cells(dedicated) if record.cells else ()
    return FloatingCpus(
        online - dedicated if dedicated else frozenset(),
        {cell.cell_id: cell.cpuset & online for cell in cells},
    )


def check_hardware(instance: Instance) -> tuple[CellShare, ...]:
    """Return an instance's shares of the host's NUMA cells; empty if it has none.

    Raises:
        BuildError: the shares do not add up to the flavor's size.
    """
    cells = instance.assignment.numa if instance.assignment is not None else ()
    if not cells:
        return ()
    vcpus = sum(cell.shared_cpus + len(cell.pinned) for cell in cells)
    memory_mb = sum(cell.memory_mb for cell in cells)
    flavor = instance.flavor
    if (vcpus, memory_mb) != (flavor.vcpus, flavor.memory_mb):
        raise BuildError(
            f"cannot build instance {instance.uuid}: its NUMA cells have {vcpus} CPUs and "
            f"{memory_mb} MiB, but its flavor has {flavor.vcpus} CPUs and {flavor.memory_mb} MiB",
            cause=FailureCause.CLAIM,
        )
    return cells


def check_devices(instance: Instance, record: GuestRecord) -> None:
    """Check that an existing guest keeps its number of PCI devices.

    Raises:
        DriverError: the instance needs more or fewer devices.
    """
    shares = instance.assignment.devices if instance.assignment is not None else ()
    wanted = sum(share.count for share in shares)
    if wanted != len(record.devices):
        raise DriverError(
            f"guest {record.uuid} has {len(record.devices)} PCI devices but needs {wanted}; "
            "move it to another host, or rebuild it"
        )


def check_movable(instance: Instance) -> None:
    """Check that a guest can be migrated live.

    Raises:
        BuildError: the guest has hardware of its host, which another host cannot take over.
    """
    assignment = instance.assignment
    if assignment is not None and (assignment.numa or assignment.devices):
        reason = (
            f"instance {instance.uuid} has NUMA cells or PCI devices of its host and cannot be "
            "migrated live; use a cold migration"
        )
        raise BuildError(reason, blames_host=False)


def free_devices(
    connect: Connect, assignment: Assignment | None, linux: Linux | None = None
) -> tuple[str, ...]:
    """Return the addresses of free devices for a guest; empty if it is assigned none.

    Raises:
        BuildError: a pool has fewer free devices than the guest was assigned.
    """
    shares = () if assignment is None else assignment.devices
    if not shares:
        return ()
    taken = devices_of(
        domain.XMLDesc(XML_INACTIVE if domain.isPersistent() else 0)
        for domain in connect.listAllDomains()
    )
    found: list[str] = []
    for share in shares:
        there = (linux or Linux()).pci_addresses(share.pool)
        left = [one for one in there if one not in taken and one not in found]
        if len(left) < share.count:
            raise BuildError(
                f"cannot assign {share.count} devices of PCI pool {share.pool} to the guest: only "
                f"{len(left)} are free on this host",
                cause=FailureCause.CLAIM,
            )
        found += left[: share.count]
    return tuple(found)


def devices_of(descriptions: Iterable[str]) -> Collection[str]:
    """Return the addresses of the PCI devices in the given domain definitions."""
    found: set[str] = set()
    for text in descriptions:
        domain = ET.fromstring(text)  # noqa: S314 - libvirt wrote it
        for where in domain.iterfind("devices/hostdev[@type='pci']/source/address"):
            widths = zip(_PARTS, (4, 2, 2), strict=True)
            parts = [f"{int(where.get(name, '0'), 16):0{width}x}" for name, width in widths]
            found.add(f"{':'.join(parts)}.{int(where.get('function', '0'), 16):x}")
    return found


def guest_cpus(cells: tuple[CellShare, ...]) -> list[list[int]]:
    """Return the indices of the guest's CPUs, pinned and floating, for each of its NUMA cells."""
    pinned = [{guest for guest, _ in cell.pinned} for cell in cells]
    count = sum(cell.shared_cpus + len(cell.pinned) for cell in cells)
    floating = iter(sorted(set(range(count)) - set().union(*pinned)))
    return [
        sorted({*own, *(next(floating) for _ in range(cell.shared_cpus))})
        for own, cell in zip(pinned, cells, strict=True)
    ]


def _cells(record: GuestRecord, floating: FloatingCpus) -> Iterator[ET.Element]:
    cells, cpus = record.cells, guest_cpus(record.cells)
    yield _tuning(cells, cpus, floating)
    memory = ET.Element("numatune")
    nodes = number_list(cell.host_cell for cell in cells)
    ET.SubElement(memory, "memory", {"mode": "strict", "nodeset": nodes})
    numa = ET.Element("numa")
    for number, (cell, own) in enumerate(zip(cells, cpus, strict=True)):
        where = {"cellid": str(number), "mode": "strict", "nodeset": str(cell.host_cell)}
        ET.SubElement(memory, "memnode", where)
        given = {
            "id": str(number),
            "cpus": number_list(own),
            "memory": str(cell.memory_mb * _KB_PER_MB),
        }
        ET.SubElement(numa, "cell", {**given, "unit": "KiB"})
    yield memory
    processor = ET.Element("cpu")
    processor.append(numa)
    yield processor
    if any(cell.page_size_kb for cell in cells):
        yield _pages(cells)


def _tuning(
    cells: tuple[CellShare, ...], cpus: list[list[int]], floating: FloatingCpus
) -> ET.Element:
    tuning = ET.Element("cputune")
    for cell, own in zip(cells, cpus, strict=True):
        pins = {guest: str(host) for guest, host in cell.pinned}
        # If all CPUs of a NUMA cell are dedicated, guest CPUs cannot float over it, and libvirt's
        # default applies.
        if there := number_list(floating.of_cells.get(cell.host_cell, ())):
            pins = dict.fromkeys(own, there) | pins
        for guest, host in pins.items():
            ET.SubElement(tuning, "vcpupin", {"vcpu": str(guest), "cpuset": host})
    threads = frozenset(cpu for cell in cells for cpu in cell.emulator_cpus)
    pinned = frozenset(host for cell in cells for _, host in cell.pinned)
    # QEMU's own threads work for the guest, so they run on its CPUs rather than on those of others.
    if where := threads or pinned:
        ET.SubElement(tuning, "emulatorpin", {"cpuset": number_list(where)})
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


def number_list(numbers: Iterable[int]) -> str:
    """Return the indices of CPUs or NUMA cells in libvirt's list format: `0,1,8`."""
    return ",".join(str(number) for number in sorted(set(numbers)))
