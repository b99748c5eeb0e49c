"""Functions that create and change the domain XML of a guest."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from berth.adapters.virt.accelerator import Accelerator
from berth.adapters.virt.guest_disks import RESCUE, disks_at_start
from berth.adapters.virt.guest_folder import GuestFolder
from berth.adapters.virt.images import ImageFile, ImageFormat
from berth.adapters.virt.libvirt.hardware import (
    ANYWHERE,
    FloatingCpus,
    hardware_elements,
    number_list,
)
from berth.adapters.virt.libvirt.host import LibvirtHost
from berth.adapters.virt.libvirt.record import NAMESPACE, PREFIX, GuestRecord, to_element

NAME_PREFIX = "berth-"
_ARCH = "x86_64"
_NO_TIMER_CHECK = "no_timer_check"
# The size of TCG's cache of translated code in MiB; its default may exceed the guest's memory.
_TRANSLATION_MIB = "32"
_VIDEO_KIB = "16384"

ET.register_namespace(PREFIX, NAMESPACE)


def name_of(uuid: str) -> str:
    """Return the domain name of a guest."""
    return f"{NAME_PREFIX}{uuid}"


def domain_xml(
    host: LibvirtHost,
    accelerator: Accelerator,
    record: GuestRecord,
    image: ImageFile,
    *,
    floating: FloatingCpus = ANYWHERE,
) -> str:
    """Return the domain XML of a guest.

    libvirt chooses the addresses of devices. The same devices in the same order get the same
    addresses.

    Args:
        host: the host's settings.
        accelerator: the accelerator of the guest.
        record: the guest's record, which becomes the domain's metadata.
        image: the image from which the guest boots.
        floating: the host CPUs of unpinned guest CPUs.
    """
    folder = GuestFolder(host.state_dir, record.uuid)
    domain_type = "kvm" if accelerator is Accelerator.KVM else "qemu"
    domain = ET.Element("domain", {"type": domain_type})
    _text(domain, "name", name_of(record.uuid))
    _text(domain, "uuid", record.uuid)
    ET.SubElement(domain, "metadata").append(to_element(record))
    _text(domain, "memory", str(record.size.memory_mb), unit="MiB")
    _text(domain, "vcpu", str(record.size.vcpus), placement="static")
    _set_cpus(domain, number_list(floating.everywhere))
    names = disks_at_start(record.disks, record.rescue_image, image)
    domain.append(_boot(record.machine, image, accelerator, is_rescued=RESCUE in names))
    features = ET.SubElement(domain, "features")
    for name in ("acpi", "apic"):
        ET.SubElement(features, name)
    if accelerator is Accelerator.TCG:
        _text(ET.SubElement(features, "tcg"), "tb-cache", _TRANSLATION_MIB, unit="MiB")
    domain.append(_processor(accelerator, host.cpu_model))
    for event, action in (("poweroff", "destroy"), ("reboot", "restart"), ("crash", "destroy")):
        _text(domain, f"on_{event}", action)
    devices = ET.SubElement(domain, "devices")
    _text(devices, "emulator", host.binary)
    for name, letter in zip(names, "abcdefgh", strict=False):
        devices.append(_disk(folder.disk(name), name, f"vd{letter}"))
    ET.SubElement(devices, "controller", {"type": "usb", "model": "none"})
    devices.append(_serial(folder))
    ET.SubElement(devices, "memballoon", {"model": "none"})
    # A panic of the guest's kernel becomes an event and a state, instead of a silent hang.
    ET.SubElement(devices, "panic", {"model": "isa"})
    if host.vnc:
        devices.extend(_screen())
    for element in hardware_elements(record, floating):
        if element.tag == "hostdev":
            devices.append(element)
        elif (there := domain.find(element.tag)) is not None:
            there.extend(element)
        else:
            domain.append(element)
    return ET.tostring(domain, encoding="unicode")


@dataclass(frozen=True, slots=True)
class DestinationFiles:
    """The paths of a guest's files at the destination of a migration, and its host CPUs there."""

    state_dir: Path
    image: Path
    initrd: Path | None
    binary: str
    cpus: str = ""
    """The destination's CPUs on which unpinned guest CPUs run; empty for all."""


def moved_xml(xml: str, destination: DestinationFiles, record: GuestRecord) -> str:
    """Return the domain XML of a guest for the destination of a migration.

    Everything that the guest sees stays the same, as live migration requires. Only the paths of
    files, the host CPUs of unpinned guest CPUs and the record change.

    Args:
        xml: the migratable XML of the source.
        destination: the paths and host CPUs at the destination.
        record: the guest's record at the destination.
    """
    domain = ET.fromstring(xml)  # noqa: S314 - libvirt wrote it
    folder = GuestFolder(destination.state_dir, record.uuid, is_local=False)
    files = {"loader": destination.image, "kernel": destination.image}
    if destination.initrd is not None:
        files["initrd"] = destination.initrd
    for tag, path in files.items():
        if (found := domain.find(f"os/{tag}")) is not None:
            found.text = str(path)
    for disk in domain.iterfind("devices/disk"):
        _set_source(disk, folder)
    for line in (*domain.iterfind("devices/serial"), *domain.iterfind("devices/console")):
        if (log := line.find("log")) is not None:
            log.set("file", str(folder.console))
        if (source := line.find("source")) is not None:
            line.remove(source)  # a pseudo-terminal of this host
        line.attrib.pop("tty", None)
    _set_text(domain, "devices/emulator", destination.binary)
    _set_cpus(domain, destination.cpus)
    set_record(domain, record)
    return ET.tostring(domain, encoding="unicode")


def set_record(domain: ET.Element, record: GuestRecord) -> None:
    """Replace the record in a domain's metadata."""
    metadata = domain.find("metadata")
    if metadata is None:
        metadata = ET.SubElement(domain, "metadata")
    for old in metadata.findall(f"{{{NAMESPACE}}}guest"):
        metadata.remove(old)
    metadata.append(to_element(record))


def _set_cpus(domain: ET.Element, cpus: str) -> None:
    """Set the host CPUs on which unpinned guest CPUs run; an empty string allows all."""
    if (vcpu := domain.find("vcpu")) is not None:
        vcpu.attrib.pop("cpuset", None)
        if cpus:
            vcpu.set("cpuset", cpus)


def _boot(
    machine: str, image: ImageFile, accelerator: Accelerator, *, is_rescued: bool
) -> ET.Element:
    boot = ET.Element("os")
    _text(boot, "type", "hvm", arch=_ARCH, machine=machine)
    if image.format is ImageFormat.FIRMWARE:
        _text(boot, "loader", str(image.file), readonly="yes", type="rom")
    elif image.firmware is not None:
        _text(boot, "loader", str(image.firmware), readonly="yes", type="rom")
    elif image.direct_kernel is not None:
        _text(boot, "kernel", str(image.direct_kernel))
        if image.initrd is not None:
            _text(boot, "initrd", str(image.initrd))
        words = image.cmdline.split(" ") if image.cmdline else []
        # Under TCG on a busy host, kernels that check the timer conclude that it does not work.
        if accelerator is Accelerator.TCG and _NO_TIMER_CHECK not in words:
            words.append(_NO_TIMER_CHECK)
        if words:
            _text(boot, "cmdline", " ".join(words))
    elif not is_rescued:  # the element of the rescue disk says that the guest boots from it
        ET.SubElement(boot, "boot", {"dev": "hd"})
    return boot


def _processor(accelerator: Accelerator, model: str) -> ET.Element:
    if accelerator is Accelerator.KVM and model in ("", "host"):
        return ET.Element("cpu", {"mode": "host-passthrough", "check": "none"})
    cpu = ET.Element("cpu", {"mode": "custom", "match": "exact", "check": "none"})
    _text(cpu, "model", model or "qemu64", fallback="forbid")
    return cpu


def _disk(path: Path, name: str, target: str) -> ET.Element:
    disk = ET.Element("disk", {"type": "file", "device": "disk"})
    ET.SubElement(disk, "driver", {"name": "qemu", "type": "qcow2", "discard": "unmap"})
    ET.SubElement(disk, "source", {"file": str(path)})
    ET.SubElement(disk, "target", {"dev": target, "bus": "virtio"})
    _text(disk, "serial", name)
    if name == RESCUE:
        # The firmware would boot the first disk, which is not always the rescue disk.
        ET.SubElement(disk, "boot", {"order": "1"})
    return disk


def _set_source(disk: ET.Element, folder: GuestFolder) -> None:
    source, name = disk.find("source"), disk.findtext("serial")
    if source is None or not name:
        return
    source.attrib.clear()
    source.set("file", str(folder.disk(name)))
    for child in list(source):
        source.remove(child)
    for tag in ("backingStore", "mirror"):
        for found in disk.findall(tag):
            disk.remove(found)  # at the destination the disk has no backing file


def _serial(folder: GuestFolder) -> ET.Element:
    serial = ET.Element("serial", {"type": "pty"})
    ET.SubElement(serial, "log", {"file": str(folder.console), "append": "on"})
    ET.SubElement(serial, "target", {"port": "0"})
    return serial


def _screen() -> list[ET.Element]:
    """Return a graphics card, and a VNC server that listens nowhere."""
    # The server needs no address: libvirt passes it connected sockets on behalf of the driver.
    graphics = ET.Element("graphics", {"type": "vnc"})
    ET.SubElement(graphics, "listen", {"type": "none"})
    video = ET.Element("video")
    ET.SubElement(video, "model", {"type": "vga", "vram": _VIDEO_KIB, "heads": "1"})
    return [graphics, video]


def _text(parent: ET.Element, tag: str, text: str, **attributes: str) -> None:
    given: Mapping[str, str] = attributes
    ET.SubElement(parent, tag, dict(given)).text = text


def _set_text(parent: ET.Element, path: str, text: str) -> None:
    if (found := parent.find(path)) is not None:
        found.text = text
