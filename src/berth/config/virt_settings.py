"""The settings of guests on a compute host."""

import ipaddress
import re
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from berth.adapters.virt.accelerator import Accelerator
from berth.config.urls import check_host, check_libvirt_uri
from berth.domain.errors import InvalidInputError
from berth.domain.url_redaction import redact_url

_Text = Annotated[str, Meta(min_length=1, max_length=255)]
# A machine type without a version is an alias for the newest version in the installed QEMU.
_VERSION = re.compile(r"[0-9]\.[0-9]+$")
_DEVICE = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}")
_Amount = Annotated[int, Meta(ge=0, le=2**53 - 1)]


class AgentDriver(StrEnum):
    """The virtualisation driver of an agent's hosts."""

    FAKE = "fake"
    QEMU = "qemu"
    LIBVIRT = "libvirt"


@dataclass(frozen=True, slots=True)
class VirtSettings:
    """The guests on an agent's host; fake hosts use only `stop_grace_s` and `fake_network_dir`."""

    type: Accelerator = Accelerator.AUTO
    """How guests execute: `kvm`, `tcg`, or `auto`, which is KVM if a test guest boots with it in 3
    s."""
    state_dir: Path = Path("berth-guests")
    """Folder with a subfolder for each guest and its disks; it must not be shared between hosts."""
    storage_dir: Path | None = None
    """Folder for the disks of shelved guests and the images of servers, shared by all hosts."""
    storage_reserved_gb: _Amount = 5
    """GiB that must remain free in the storage when an image of a server is made; otherwise the
    image fails before its copy begins."""
    images: Path | None = None
    """JSON list of images with their files on this host; by default `api.images`."""
    uri: _Text = field(default="qemu:///system", repr=False)
    """URI of this host's libvirtd: `qemu:///system`, or `qemu+TRANSPORT://USER@HOST:PORT/system`
    without a password. This and the next four settings are for the driver `libvirt`."""
    peer_uri: Annotated[str, Meta(max_length=255)] = field(default="", repr=False)
    """URI at which other hosts reach this libvirtd; `qemu+tls://MOVE_ADDRESS/system` if empty."""
    numa: bool = False
    """Report the NUMA cells of this host, so that guests may be placed in them."""
    dedicated_cpus: Annotated[str, Meta(pattern=r"^[0-9,-]{0,255}$")] = ""
    """CPUs for pinned guests, such as `2-7,10`; other guests float over the rest. Needs `numa`."""
    pci_devices: tuple[str, ...] = ()
    """Devices for guests as `vendor:product`, such as `10de:20f1`."""
    move_address: _Text = "127.0.0.1"
    """Address at which other hosts reach this one for live migrations and disks, which are neither
    encrypted nor authenticated."""
    move_networks: tuple[str, ...] = ()
    """Networks of all hosts' `move_address`, as CIDR blocks such as `10.1.0.0/16`. The driver
    connects to no address outside of them, whatever another host reports; if empty, it connects to
    any."""
    binary: _Text = "qemu-system-x86_64"
    """The QEMU program."""
    # This is the newest machine type of QEMU 7.2, which Debian 12 ships.
    machine: Annotated[str, Meta(pattern=r"^[a-z0-9.-]{1,64}$")] = "pc-q35-7.2"
    """The versioned machine type of guests; live migration requires the same on all hosts."""
    cpu_model: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.+=,-]{0,255}$")] = ""
    """The CPU model; if empty, `host` with KVM and `qemu64` without KVM."""
    vnc: bool = False
    """Give guests a graphics card and a VNC server, which tenants use as a console, at their next
    start; the same on all hosts."""
    reserved_vcpus: _Amount = 0
    """CPUs reserved for the host itself."""
    # Nova's `reserved_host_memory_mb` has the same default (nova-behaviour.md 3).
    reserved_memory_mb: _Amount = 512
    """MiB of memory reserved for the host itself."""
    reserved_disk_gb: _Amount = 0
    """GiB of disk reserved for the host itself."""
    guest_overhead_mb: _Amount = 100
    """MiB of memory reserved for each guest's QEMU process in addition to the guest's memory."""
    stop_grace_s: Annotated[float, Meta(ge=0, le=86_400)] = 60.0
    """Seconds that a guest may take to shut down before it is powered off."""
    fake_network_dir: Path | None = None
    """Folder through which simulated hosts of several processes hand over guests and disks, the
    same for all of them; without it, servers move only within a process."""

    def __post_init__(self) -> None:
        """Reject a machine type without a version, and invalid addresses and hardware settings.

        Raises:
            InvalidInputError: the error names the key and the remedy.
        """
        if _VERSION.search(self.machine) is None:
            raise InvalidInputError(
                "virt.machine",
                f"{self.machine!r} changes with each version of QEMU, so guests could not be "
                "live-migrated; name a version, such as pc-q35-7.2",
            )
        if self.dedicated_cpus and not self.numa:
            raise InvalidInputError(
                "virt.dedicated_cpus", "dedicated CPUs belong to NUMA cells; also set virt.numa"
            )
        check_libvirt_uri(self.uri, "virt.uri")
        if self.peer_uri:
            check_libvirt_uri(self.peer_uri, "virt.peer_uri")
        check_host(self.move_address, "virt.move_address")
        for network in self.move_networks:
            _check_network(network)
        for pair in self.pci_devices:
            if _DEVICE.fullmatch(pair) is None:
                raise InvalidInputError(
                    "virt.pci_devices", f"{pair!r} must be vendor:product, such as 10de:20f1"
                )


def _check_network(network: str) -> None:
    try:
        ipaddress.ip_network(network)
    except ValueError as error:
        raise InvalidInputError(
            "virt.move_networks",
            f"{redact_url(network)[:80]!r} must be a network, such as 10.1.0.0/16",
        ) from error
