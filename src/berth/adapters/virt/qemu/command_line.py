"""The settings of a QEMU host, and the command line of a guest's QEMU process.

The command line also identifies running guests, so a new agent finds them without any file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from berth.adapters.virt.accelerator import Accelerator
from berth.adapters.virt.guest_disks import RESCUE, disks_at_start
from berth.adapters.virt.images import ImageFile, ImageFormat
from berth.adapters.virt.qemu.spec import GuestSpec, QemuFolder

_MARK = "opt/berth/host"
_NO_TIMER_CHECK = "no_timer_check"
_SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"


@dataclass(frozen=True, slots=True)
class QemuHost:
    """The settings of the QEMU driver on one host.

    `state_dir` contains a folder for each guest, with its disks. `storage_dir` receives the disks
    of shelved guests, in a file system that all hosts share. Other hosts connect to `move_address`
    for live migrations and disks; this traffic is neither encrypted nor authenticated.

    Live migrations need the same `machine` and `cpu_model` on both sides, so `machine` names a
    version. An empty `cpu_model` means `qemu64` under TCG and the host's CPU under KVM.
    """

    name: str
    state_dir: Path
    accelerator: Accelerator = Accelerator.AUTO
    storage_dir: Path | None = None
    storage_reserved_gb: int = 0
    """The space in GiB that images of servers must leave free in the storage."""
    move_address: str = "127.0.0.1"
    move_networks: tuple[str, ...] = ()
    """The networks of other hosts' `move_address`, as CIDR blocks; none allows every address."""
    binary: str = "qemu-system-x86_64"
    machine: str = "pc-q35-7.2"
    cpu_model: str = ""
    translation_mb: int = 32
    """The size of TCG's cache of translated code for each guest, in MiB."""
    vnc: bool = False
    """Whether guests get a graphics card and a VNC server at their next start."""


class Sockets(NamedTuple):
    """The descriptors that QEMU inherits, as they are numbered in its process."""

    control: int
    serial: int
    memory: int | None = None
    """The saved memory of a suspended guest."""


def command_line(
    host: QemuHost, accelerator: Accelerator, spec: GuestSpec, image: ImageFile, sockets: Sockets
) -> list[str]:
    """Return the command line that starts a guest.

    Both sides of a live migration must have the same devices in the same order, so the command line
    depends only on the spec and the host's settings.
    """
    folder = QemuFolder(host.state_dir, spec.uuid)
    return [
        host.binary,
        *("-name", f"guest={spec.uuid}", "-uuid", spec.uuid),
        *mark(host.name),
        *("-machine", spec.machine, *_processor(host, accelerator, spec.cpu_model)),
        *("-m", f"{spec.size.memory_mb}M", "-smp", str(spec.size.vcpus)),
        *("-nodefaults", "-no-user-config", "-sandbox", _SANDBOX),
        # The VNC server listens nowhere: the driver hands it connected sockets.
        *(("-vnc", "none") if spec.has_vnc else ("-display", "none")),
        # QEMU keeps running when the guest shuts itself down, so that even an agent that starts
        # later can tell the shutdown from a crash.
        "-no-shutdown",
        *("-chardev", f"socket,id=control,fd={sockets.control},server=on,wait=off"),
        *("-mon", "chardev=control,mode=control"),
        *("-chardev", _serial(sockets.serial, folder.console), "-serial", "chardev:serial"),
        *("-device", "pvpanic"),
        *_boot(image, accelerator),
        *(word for name in _disks(spec, image) for word in _disk(folder.disk(name), name)),
        # The graphics card comes last, so that the addresses of the other devices do not depend on
        # it.
        *(("-device", "VGA") if spec.has_vnc else ()),
        *_incoming(spec, sockets),
    ]


def mark(host: str) -> list[str]:
    """Return the arguments that mark the guests of a host."""
    return ["-fw_cfg", f"name={_MARK},string={quoted(host)}"]


def guest_of(words: Sequence[str], host: str) -> str | None:
    """Return the uuid of the host's guest that a command line starts, or None if it starts none."""
    name, value = mark(host)
    if "-uuid" not in words or value not in words:
        return None
    at = words.index(value)
    if words[at - 1] != name:
        return None
    return words[words.index("-uuid") + 1]


def quoted(value: str | Path) -> str:
    """Escape a value for QEMU's comma-separated options."""
    return str(value).replace(",", ",,")


def _processor(host: QemuHost, accelerator: Accelerator, cpu_model: str) -> list[str]:
    if accelerator is Accelerator.KVM:
        return ["-accel", "kvm", "-cpu", cpu_model or "host"]
    return ["-accel", f"tcg,tb-size={host.translation_mb}", "-cpu", cpu_model or "qemu64"]


def _serial(fd: int, console: Path) -> str:
    log = f"logfile={quoted(console)},logappend=on"
    return f"socket,id=serial,fd={fd},server=on,wait=off,{log}"


def _boot(image: ImageFile, accelerator: Accelerator) -> list[str]:
    if image.format is ImageFormat.FIRMWARE:
        return ["-bios", str(image.file)]
    if image.firmware is not None:
        return ["-bios", str(image.firmware)]
    if image.direct_kernel is None:
        return []
    initrd = [] if image.initrd is None else ["-initrd", str(image.initrd)]
    words = image.cmdline.split(" ") if image.cmdline else []
    # Under TCG on a busy host, kernels that check the timer conclude that it does not work.
    if accelerator is Accelerator.TCG and _NO_TIMER_CHECK not in words:
        words.append(_NO_TIMER_CHECK)
    append = ["-append", " ".join(words)] if words else []
    return ["-kernel", str(image.direct_kernel), *initrd, *append]


def _disks(spec: GuestSpec, image: ImageFile) -> tuple[str, ...]:
    return disks_at_start(spec.disks, spec.rescue_image, image)


def _disk(path: Path, name: str) -> list[str]:
    # The firmware would boot the first disk, which is not always the rescue disk. QEMU itself gives
    # the kernel of `-kernel` index 0.
    first = ",bootindex=1" if name == RESCUE else ""
    file = f"driver=file,node-name={name}-file,filename={quoted(path)},discard=unmap"
    return [
        *("-blockdev", file),
        *("-blockdev", f"driver=qcow2,node-name={name},file={name}-file,discard=unmap"),
        *("-device", f"virtio-blk-pci,id=disk-{name},drive={name},serial={name}{first}"),
    ]


def _incoming(spec: GuestSpec, sockets: Sockets) -> list[str]:
    if sockets.memory is not None:
        return ["-incoming", f"fd:{sockets.memory}"]
    if not spec.waits:
        return []
    # With disks the guest must not continue before the source's mirrors have ended, so QEMU starts
    # paused (-S) and the driver continues it.
    return ["-incoming", "defer", *(["-S"] if spec.disks else [])]
