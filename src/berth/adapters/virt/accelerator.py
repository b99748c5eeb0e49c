"""The choice of the accelerator, by booting a stub guest.

It does not suffice that `/dev/kvm` exists and can be opened: nested KVM may accept a guest whose
interrupts never arrive (docs/adr/0017-guests-without-a-daemon.md).
"""

import asyncio
import re
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from berth.adapters.virt import processes
from berth.adapters.virt.guest_folder import tail
from berth.adapters.virt.processes import run
from berth.adapters.virt.stub_guest import READY, stub_firmware
from berth.domain.errors import DriverError

_PROBE_S = 3.0
_POLL_S = 0.02
_HAS_KVM = Path("/dev/kvm").exists()
_OUTPUT_BYTES = 10_000


class Accelerator(StrEnum):
    """The accelerator with which QEMU executes the instructions of guests."""

    TCG = "tcg"
    KVM = "kvm"
    AUTO = "auto"
    """KVM if the stub guest boots with it, or else TCG."""


class Emulator(Protocol):
    """The QEMU settings of a host."""

    @property
    def accelerator(self) -> Accelerator:
        """The accelerator, as configured."""
        ...

    @property
    def binary(self) -> str:
        """The QEMU executable."""
        ...

    @property
    def machine(self) -> str:
        """The machine type of guests."""
        ...

    @property
    def cpu_model(self) -> str:
        """The CPU model of guests; empty for the accelerator's default."""
        ...


async def accelerator_of(host: Emulator) -> Accelerator:
    """Return the accelerator to use; `auto` means KVM if the stub guest boots with it, else TCG."""
    if host.accelerator is not Accelerator.AUTO:
        return host.accelerator
    if not _HAS_KVM or not await boots(host, Accelerator.KVM):
        return Accelerator.TCG
    return Accelerator.KVM


async def version_of(binary: str) -> int:
    """Return the version of a QEMU executable as an integer: 7_002_003 for 7.2.3.

    Raises:
        DriverError: QEMU cannot be started, or its output contains no version.
    """
    text = (await run(binary, "--version")).decode(errors="replace")
    found = re.search(r"version (\d+)\.(\d+)\.(\d+)", text)
    if found is None:
        raise DriverError(
            f"cannot determine the version of {binary}, because its --version shows none; check "
            "virt.binary"
        )
    major, minor, patch = (int(part) for part in found.groups())
    return major * 1_000_000 + minor * 1_000 + patch


async def boots(host: Emulator, accelerator: Accelerator) -> bool:
    """Return whether the stub guest becomes ready with an accelerator within 3 s."""
    with tempfile.TemporaryDirectory() as folder:
        firmware, output = Path(folder, "stub.bin"), Path(folder, "output")
        await asyncio.to_thread(firmware.write_bytes, stub_firmware())
        cpu = host.cpu_model or ("host" if accelerator is Accelerator.KVM else "qemu64")
        argv = [
            *(host.binary, "-machine", host.machine, "-accel", accelerator, "-cpu", cpu),
            *("-m", "2M", "-nodefaults", "-no-user-config", "-display", "none"),
            *("-bios", str(firmware), "-serial", "stdio"),
        ]
        try:
            process = processes.start(argv, fds=[], output=output)
        except OSError:
            return False
        try:
            async with asyncio.timeout(_PROBE_S):
                while process.is_alive():
                    if READY in tail(output, _OUTPUT_BYTES):
                        return True
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            return False
        finally:
            # The process is killed even when the caller is cancelled, because it runs in its own
            # session and would survive the agent.
            process.kill()
            await process.wait(_PROBE_S)
        return False
