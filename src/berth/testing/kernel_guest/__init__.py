"""The kernel guest: the distribution's kernel with a user space of one script.

The stub guest tests a driver's own behaviour. The kernel guest tests that a virtual machine has the
hardware that an operating system needs: ACPI, interrupts, a timer, disks.

`python -m berth.testing.kernel_guest FOLDER` writes its kernel and initial RAM disk to a folder,
from Debian packages that it downloads without installing them.
"""

import re
from dataclasses import dataclass

KERNEL = "vmlinuz"
INITRD = "initrd.gz"
CMDLINE = "console=ttyS0 quiet panic=0"
READY = "BERTH-KERNEL ready uuid="
"""The start of the line that the guest writes to its serial console after it has booted."""
MEMORY_MB = 128
"""The memory of the guest in MiB, with some reserve: 72 MiB suffice to boot."""
_READY = re.compile(
    re.escape(READY) + r"([0-9a-f-]{36}) cpus=([0-9]+) mib=([0-9]+) boots=([0-9]+)\r?\n"
)
_COUNT = re.compile(r"BERTH-KERNEL count ([0-9]+)\r?\n")


@dataclass(frozen=True, slots=True)
class KernelGuestReady:
    """The parsed line that a kernel guest writes when it starts.

    `boots` counts the boots from its disk.
    """

    uuid: str
    vcpus: int
    memory_mb: int
    boots: int


def starts_of(console: str) -> list[KernelGuestReady]:
    """Return the starts of a kernel guest that its console output shows, in order."""
    found = _READY.findall(console)
    return [
        KernelGuestReady(uuid, int(cpus), int(mib), int(boots)) for uuid, cpus, mib, boots in found
    ]


def counts_of(console: str) -> list[int]:
    """Return the counter values that a kernel guest has written to its console, in order."""
    return [int(count) for count in _COUNT.findall(console)]
