"""The use of resources by a libvirt guest."""

from xml.etree import ElementTree as ET

from berth.adapters.virt.libvirt.binding import Domain
from berth.ports.virt import DiskCounters, GuestDiagnostics


def diagnostics_of(domain: Domain) -> GuestDiagnostics:
    """Return the use of resources by a running guest.

    The calls block the thread, and raise libvirt's own errors.
    """
    xml = ET.fromstring(domain.XMLDesc(0))  # noqa: S314 - libvirt wrote it
    _, memory_kb, used_kb, *_ = domain.info()
    cpus, _ = domain.vcpus()
    return GuestDiagnostics(
        hypervisor=xml.get("type", "qemu"),
        cpu_times_ns=tuple(time_ns for _, _, time_ns, _ in cpus),
        memory_kb=memory_kb,
        memory_used_kb=used_kb,
        memory_rss_kb=domain.memoryStats().get("rss"),
        disks=tuple(
            _counters(domain, target.get("dev", ""))
            for target in xml.iterfind("devices/disk/target")
        ),
    )


def _counters(domain: Domain, name: str) -> DiskCounters:
    read_requests, read_bytes, write_requests, write_bytes, errors = domain.blockStats(name)
    return DiskCounters(
        name,
        read_bytes=read_bytes,
        read_requests=read_requests,
        write_bytes=write_bytes,
        write_requests=write_requests,
        # libvirt returns -1, because QEMU reports no count of errors to it.
        errors=None if errors < 0 else errors,
    )
