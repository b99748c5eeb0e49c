"""Settings of the guests of a compute host."""

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from berth.adapters.virt.accelerator import Accelerator
from berth.domain.errors import InvalidInputError

_Text = Annotated[str, Meta(min_length=1, max_length=255)]
_VERSION = re.compile(r"[0-9]\.[0-9]+$")
_DEVICE = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}")
_Amount = Annotated[int, Meta(ge=0, le=2**53 - 1)]


class AgentDriver(StrEnum):
    """What starts and stops the guests of an agent's hosts."""

    FAKE = "fake"
    QEMU = "qemu"
    LIBVIRT = "libvirt"


@dataclass(frozen=True, slots=True)
class VirtSettings:
    """How guests run on the host of an agent, unless its driver is the fake one."""

    type: Accelerator = Accelerator.AUTO
    """What runs their instructions; `auto` is KVM when the stub guest boots with it."""
    state_dir: Path = Path("berth-guests")
    """Holds a folder for each guest, with its disks; only this host may use it."""
    storage_dir: Path | None = None
    """Where the disks of shelved guests go: a folder that all hosts share."""
    images: Path | None = None
    """JSON list of images with their files on this host; `api.images` otherwise."""
    uri: _Text = "qemu:///system"
    """Of this host's libvirtd; for the libvirt driver only, as what follows to `pci_devices`."""
    peer_uri: Annotated[str, Meta(max_length=255)] = ""
    """Of this host's libvirtd for those of others; empty: `qemu+tls://MOVE_ADDRESS/system`."""
    numa: bool = False
    """Report the NUMA cells of this host, so that guests may ask for parts of them."""
    dedicated_cpus: Annotated[str, Meta(pattern=r"^[0-9,-]{0,255}$")] = ""
    """CPUs that guests get for themselves, `2-7,10` say; the others float. Needs `numa`."""
    pci_devices: tuple[str, ...] = ()
    """Devices that guests may have, as `vendor:product`, `10de:20f1` say."""
    move_address: _Text = "127.0.0.1"
    """Of this host, where other hosts reach it for live migrations and disks."""
    binary: _Text = "qemu-system-x86_64"
    machine: Annotated[str, Meta(pattern=r"^[a-z0-9.-]{1,64}$")] = "pc-q35-7.2"
    """The machine that guests see, with its version; the same on all hosts."""
    cpu_model: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.+=,-]{0,255}$")] = ""
    """`host` with KVM and `qemu64` without, when it is empty."""
    reserved_vcpus: _Amount = 0
    reserved_memory_mb: _Amount = 512
    reserved_disk_gb: _Amount = 0
    guest_overhead_mb: _Amount = 100
    """Memory that is reserved for each guest on top of what it sees."""
    stop_grace_s: Annotated[float, Meta(ge=0, le=86_400)] = 60.0
    """How long a guest may take to turn itself off before it is cut off."""

    def __post_init__(self) -> None:
        """Refuse a machine that changes when QEMU is upgraded, and hardware that cannot be.

        Raises:
            InvalidInputError: naming the key and what to do.
        """
        if _VERSION.search(self.machine) is None:
            raise InvalidInputError(
                "virt.machine",
                f"{self.machine!r} is another machine in each version of QEMU, so guests could "
                "not move; name one with its version, pc-q35-7.2 say",
            )
        if self.dedicated_cpus and not self.numa:
            raise InvalidInputError(
                "virt.dedicated_cpus", "they are NUMA cells'; set virt.numa too"
            )
        for pair in self.pci_devices:
            if _DEVICE.fullmatch(pair) is None:
                raise InvalidInputError("virt.pci_devices", f"{pair!r} is not like 10de:20f1")
