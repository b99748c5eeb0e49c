"""The settings of a libvirt host, and the facts that only libvirt knows about it."""

from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from berth.adapters.virt.accelerator import Accelerator
from berth.adapters.virt.inventory import Hypervisor
from berth.adapters.virt.libvirt.binding import Connect

_ARCH = "x86_64"
_HOST_MODELS = ("", "host")


@dataclass(frozen=True, slots=True)
class LibvirtHost:
    """The settings of the libvirt driver on one host.

    `uri` is the local URI of libvirtd, `peer_uri` the one that the libvirtd of another host uses
    for live migrations. `state_dir` contains a folder for each guest, with its disks. `storage_dir`
    receives the disks of shelved guests, in a file system that all hosts share. Other hosts connect
    to `move_address` for guests' memory and disks, which are sent unencrypted.

    `machine` names a version, because a guest keeps its machine type when it is migrated. Only
    guest CPUs that are pinned to `dedicated_cpus` run on them.
    """

    name: str
    state_dir: Path
    uri: str = "qemu:///system"
    peer_uri: str = ""
    accelerator: Accelerator = Accelerator.AUTO
    storage_dir: Path | None = None
    storage_reserved_gb: int = 0
    """The space in GiB that images of servers must leave free in the storage."""
    move_address: str = "127.0.0.1"
    move_networks: tuple[str, ...] = ()
    """The networks of other hosts' `move_address`, as CIDR blocks; none allows every address."""
    binary: str = "/usr/bin/qemu-system-x86_64"
    machine: str = "pc-q35-7.2"
    cpu_model: str = ""
    dedicated_cpus: frozenset[int] = frozenset()
    vnc: bool = False
    """Whether guests get a graphics card and a VNC server at their next start."""
    calls_max: int = 8
    """The maximum number of simultaneous calls to libvirtd.

    Migrations and graceful shutdowns, which take long, are not counted.
    """


def hypervisor_of(connect: Connect, host: LibvirtHost, accelerator: Accelerator) -> Hypervisor:
    """Return the hypervisor of a host, for its report.

    Args:
        connect: the connection to libvirtd.
        host: the host's settings.
        accelerator: the accelerator of the host's guests; libvirt itself would report KVM wherever
            the device node exists.
    """
    is_kvm = accelerator is Accelerator.KVM
    kind = "kvm" if is_kvm else "qemu"
    capabilities = connect.getDomainCapabilities(host.binary, _ARCH, host.machine, kind)
    return Hypervisor(
        type=connect.getType(),
        version=connect.getVersion(),
        supported_instances=instances_of(connect.getCapabilities(), with_kvm=is_kvm),
        sees_the_cpu=is_kvm and host.cpu_model in _HOST_MODELS,
        cpu_models=cpu_models_of(capabilities),
    )


def instances_of(capabilities: str, *, with_kvm: bool) -> tuple[tuple[str, str, str], ...]:
    """Return the (architecture, domain type, OS type) of each kind of guest in the capabilities."""
    host = ET.fromstring(capabilities)  # noqa: S314 - libvirt wrote it
    return tuple(
        (arch.get("name", ""), domain.get("type", ""), guest.findtext("os_type", ""))
        for guest in host.iterfind("guest")
        for arch in guest.iterfind("arch")
        for domain in arch.iterfind("domain")
        if with_kvm or domain.get("type") != "kvm"
    )


def cpu_models_of(capabilities: str) -> tuple[str, ...]:
    """Return the usable CPU models in libvirt's domain capabilities, sorted."""
    found = ET.fromstring(capabilities)  # noqa: S314 - libvirt wrote it
    models = found.iterfind("cpu/mode[@name='custom']/model[@usable='yes']")
    return tuple(sorted(model.text for model in models if model.text))
