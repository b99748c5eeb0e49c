"""What the libvirt driver is told about its host."""

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
    """Where the driver of a host finds libvirtd, and how it describes guests to it.

    `uri` is libvirtd's address here, `peer_uri` the one by which the libvirtd of another host
    reaches it for live migrations. `state_dir` holds a folder for each guest with its disks,
    `storage_dir` is where shelved disks go, in a file system that all hosts share. Other hosts
    reach `move_address` for guests' memory and disks, which go there unencrypted.

    `machine` names a version, since guests that run keep theirs when they move. Nothing runs on
    `dedicated_cpus` but the CPUs of guests that have them for themselves.
    """

    name: str
    state_dir: Path
    uri: str = "qemu:///system"
    peer_uri: str = ""
    accelerator: Accelerator = Accelerator.AUTO
    storage_dir: Path | None = None
    move_address: str = "127.0.0.1"
    binary: str = "/usr/bin/qemu-system-x86_64"
    machine: str = "pc-q35-7.2"
    cpu_model: str = ""
    dedicated_cpus: frozenset[int] = frozenset()
    calls_max: int = 8
    """Most calls to libvirtd at once, without the long ones: moves, and the power button."""


def hypervisor_of(connect: Connect, host: LibvirtHost, accelerator: Accelerator) -> Hypervisor:
    """Return what runs the guests of a host, for its report.

    Args:
        connect: to the host's libvirtd.
        host: how its guests are described.
        accelerator: what they run on; libvirt offers KVM wherever there is a device node.
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
    """Return (architecture, kind, way) of all that a host can start, by libvirt's capabilities."""
    host = ET.fromstring(capabilities)  # noqa: S314 - libvirt wrote it
    return tuple(
        (arch.get("name", ""), domain.get("type", ""), guest.findtext("os_type", ""))
        for guest in host.iterfind("guest")
        for arch in guest.iterfind("arch")
        for domain in arch.iterfind("domain")
        if with_kvm or domain.get("type") != "kvm"
    )


def cpu_models_of(capabilities: str) -> tuple[str, ...]:
    """Return the processors that guests can have here, by a domain's capabilities."""
    found = ET.fromstring(capabilities)  # noqa: S314 - libvirt wrote it
    models = found.iterfind("cpu/mode[@name='custom']/model[@usable='yes']")
    return tuple(sorted(model.text for model in models if model.text))
