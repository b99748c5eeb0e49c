"""What the libvirt driver is told about its host."""

from dataclasses import dataclass
from pathlib import Path

from berth.adapters.virt.accelerator import Accelerator


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
