"""The kernel guest: the distribution's kernel with a user space of one script.

The stub guest tells whether a driver does what it should. This one tells whether what an
operating system needs is there: ACPI, interrupts, a timer, disks.

`python -m berth.testing.kernel_guest FOLDER` makes its two files there, of Debian packages that
it downloads and does not install.
"""

import re
from dataclasses import dataclass

KERNEL = "vmlinuz"
INITRD = "initrd.gz"
CMDLINE = "console=ttyS0 quiet panic=0"
READY = "BERTH-KERNEL ready uuid="
"""How the line begins that it writes to its serial console when it has started."""
MEMORY_MB = 128
"""What it needs; it starts with 72."""
_READY = re.compile(
    re.escape(READY) + r"([0-9a-f-]{36}) cpus=([0-9]+) mib=([0-9]+) boots=([0-9]+)\r?\n"
)
_COUNT = re.compile(r"BERTH-KERNEL count ([0-9]+)\r?\n")


@dataclass(frozen=True, slots=True)
class Ready:
    """What a kernel guest says of itself at its start; `boots` is of its first disk."""

    uuid: str
    vcpus: int
    memory_mb: int
    boots: int


def starts_of(console: str) -> list[Ready]:
    """Return what a console says of each start of a kernel guest, in order."""
    found = _READY.findall(console)
    return [Ready(uuid, int(cpus), int(mib), int(boots)) for uuid, cpus, mib, boots in found]


def counts_of(console: str) -> list[int]:
    """Return how far a kernel guest has counted, each time that it has said so."""
    return [int(count) for count in _COUNT.findall(console)]
