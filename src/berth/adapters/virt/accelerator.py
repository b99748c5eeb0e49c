"""Which accelerator works: a device node that opens and answers may still boot no guest."""

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
    """What runs the guests' instructions."""

    TCG = "tcg"
    KVM = "kvm"
    AUTO = "auto"
    """KVM where a guest boots with it, TCG elsewhere."""


class Emulator(Protocol):
    """What a driver is told about the QEMU of its host."""

    @property
    def accelerator(self) -> Accelerator:
        """What is set."""
        ...

    @property
    def binary(self) -> str:
        """The program."""
        ...

    @property
    def machine(self) -> str:
        """The machine that guests see."""
        ...

    @property
    def cpu_model(self) -> str:
        """The processor that they see; empty for the accelerator's own."""
        ...


async def accelerator_of(host: Emulator) -> Accelerator:
    """Return what is set, and for `auto` KVM when the stub guest boots with it, else TCG."""
    if host.accelerator is not Accelerator.AUTO:
        return host.accelerator
    if not _HAS_KVM or not await boots(host, Accelerator.KVM):
        return Accelerator.TCG
    return Accelerator.KVM


async def version_of(binary: str) -> int:
    """Return the version of a QEMU: 7_002_003 for 7.2.3.

    Raises:
        DriverError: it cannot be started, or does not say.
    """
    text = (await run(binary, "--version")).decode(errors="replace")
    found = re.search(r"version (\d+)\.(\d+)\.(\d+)", text)
    if found is None:
        raise DriverError(f"{binary} does not say its version")
    major, minor, patch = (int(part) for part in found.groups())
    return major * 1_000_000 + minor * 1_000 + patch


async def boots(host: Emulator, accelerator: Accelerator) -> bool:
    """Tell whether the stub guest becomes ready with an accelerator, in 3 seconds."""
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
            process.kill()
            await process.wait(_PROBE_S)
        return False
