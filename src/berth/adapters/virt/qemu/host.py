"""What the QEMU driver is told about its host."""

from dataclasses import dataclass
from pathlib import Path

from berth.adapters.virt.accelerator import Accelerator


@dataclass(frozen=True, slots=True)
class QemuHost:
    """Where the driver of a host keeps its guests, and how it starts them.

    `state_dir` holds a folder for each guest, with its disks; `storage_dir` is where shelved
    disks go, in a file system that all hosts share. Other hosts reach `move_address` for live
    migrations and disks; what goes there is neither encrypted nor authenticated.

    Live migrations need the same `machine` and `cpu_model` on both sides; so `machine` names a
    version. An empty `cpu_model` is `qemu64` under TCG and the host's own under KVM.
    """

    name: str
    state_dir: Path
    accelerator: Accelerator = Accelerator.AUTO
    storage_dir: Path | None = None
    move_address: str = "127.0.0.1"
    binary: str = "qemu-system-x86_64"
    machine: str = "pc-q35-7.2"
    cpu_model: str = ""
    translation_mb: int = 32
    """What TCG may keep of translated code for each guest."""
