"""Which of a host's PCI devices a guest gets, of the pools that its assignment names."""

from collections.abc import Collection, Iterable
from xml.etree import ElementTree as ET

from berth.adapters.virt.libvirt.binding import XML_INACTIVE, Connect
from berth.adapters.virt.machine_facts import Linux
from berth.domain.compute.build_failure import BuildError, FailureCause
from berth.domain.hardware.assignment import Assignment

_PARTS = ("domain", "bus", "slot")


def free(
    connect: Connect, assignment: Assignment | None, linux: Linux | None = None
) -> tuple[str, ...]:
    """Return the addresses of devices for a guest, which no other guest here has.

    Raises:
        BuildError: a pool has fewer than the guest was given.
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
                f"pool {share.pool} has {len(left)} devices left here,"
                f" and {share.count} are wanted",
                cause=FailureCause.CLAIM,
            )
        found += left[: share.count]
    return tuple(found)


def devices_of(descriptions: Iterable[str]) -> Collection[str]:
    """Return the addresses of the devices that guests have, by their descriptions."""
    found: set[str] = set()
    for text in descriptions:
        domain = ET.fromstring(text)  # noqa: S314 - libvirt wrote it
        for where in domain.iterfind("devices/hostdev[@type='pci']/source/address"):
            widths = zip(_PARTS, (4, 2, 2), strict=True)
            parts = [f"{int(where.get(name, '0'), 16):0{width}x}" for name, width in widths]
            found.add(f"{':'.join(parts)}.{int(where.get('function', '0'), 16):x}")
    return found
