"""Two hosts with real QEMU processes for the driver's conformance suite."""

import asyncio
import itertools
import os
import random
import shutil
import signal
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from berth.adapters.system import SystemClock
from berth.adapters.virt import processes
from berth.adapters.virt.accelerator import Accelerator
from berth.adapters.virt.images import ImageFile, ImageFormat
from berth.adapters.virt.inventory import InventorySettings
from berth.adapters.virt.processes import HostProcess
from berth.adapters.virt.qemu.command_line import QemuHost, guest_of
from berth.adapters.virt.qemu.driver import QemuDriver
from berth.adapters.virt.qemu.qmp import Qmp
from berth.adapters.virt.qemu.spec import QemuFolder
from berth.adapters.virt.stub_guest import stub_firmware
from berth.ports.virt import Power
from berth.testing.driver_conformance.rig import HERE, RESCUE_IMAGE, THERE, eventually, powers

PROGRAMS = ("qemu-system-x86_64", "qemu-img", "qemu-io", "qemu-storage-daemon")
STUB = "stub"
_PADDING_BYTES = 2 * 1024 * 1024
_NUMBERS = itertools.count(1)
_DEAF_S = 0.2


def require_qemu() -> None:
    """Skip the test if a program of QEMU is missing."""
    if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
        pytest.skip(f"no {', '.join(missing)} here: make virt-packages")


def stub_image(folder: Path) -> ImageFile:
    """Write the stub guest's image to a folder and return its record."""
    file = folder / "stub.bin"
    # The padding takes a while to move; a guest full of zeros would move immediately.
    file.write_bytes(random.Random(0).randbytes(_PADDING_BYTES) + stub_firmware())
    return ImageFile(STUB, file, ImageFormat.FIRMWARE)


def rescue_image(folder: Path) -> ImageFile:
    """Write the image for rescues, an empty disk, to a folder and return its record."""
    file = folder / "rescue.raw"
    file.write_bytes(bytes(1024 * 1024))
    return ImageFile(RESCUE_IMAGE.image_id, file, ImageFormat.RAW)


class QemuRig:
    """See `DriverRig`."""

    def __init__(self, folder: Path) -> None:
        number = f"{os.getpid()}-{next(_NUMBERS)}"
        self.folder = folder
        self.images = {STUB: stub_image(folder), RESCUE_IMAGE.image_id: rescue_image(folder)}
        self.hosts = [
            QemuHost(
                name=f"berth-test-{number}-{host}",
                state_dir=folder / f"state-{host}",
                accelerator=Accelerator.TCG,
                storage_dir=folder / "stored",
                vnc=True,
            )
            for host in (HERE, THERE)
        ]
        self._drivers: dict[int, QemuDriver] = {}
        self._stalled: list[HostProcess] = []

    async def open(self, host: int = HERE) -> QemuDriver:
        """See `DriverRig`."""
        if (old := self._drivers.pop(host, None)) is not None:
            await old.close()
        one = self.hosts[host]
        driver = QemuDriver(one, self.images, SystemClock(), InventorySettings(one.state_dir))
        self._drivers[host] = driver
        return driver

    async def crash(self, instance_uuid: str, host: int = HERE) -> None:
        """See `DriverRig`."""
        process = self.process(instance_uuid, host)
        process.kill()
        assert await process.wait(10)

    async def turn_off(self, instance_uuid: str, host: int = HERE) -> None:
        """See `DriverRig`."""
        await self.type(instance_uuid, "p", host)

        async def is_off() -> bool:
            driver = self._drivers.get(host)
            if driver is not None:
                return (await powers(driver))[instance_uuid] is Power.STOPPED
            return await self._status(instance_uuid, host) == "shutdown"

        await eventually(is_off)

    async def deafen(self, instance_uuid: str, host: int = HERE) -> None:
        """See `DriverRig`."""
        console = QemuFolder(self.hosts[host].state_dir, instance_uuid).console
        before = console.read_text().count("tick")
        await self.type(instance_uuid, "th", host)

        async def has_read() -> bool:
            return console.read_text().count("tick") > before

        await eventually(has_read)
        await asyncio.sleep(_DEAF_S)  # the second letter arrives within one tick

    async def forget(self, instance_uuid: str, host: int = HERE) -> None:
        """See `DriverRig`."""
        shutil.rmtree(self.hosts[host].state_dir / instance_uuid)

    async def stall(self, instance_uuid: str) -> None:
        """See `DriverRig`."""
        process = self.process(instance_uuid, THERE)
        os.kill(process.pid, signal.SIGSTOP)
        self._stalled.append(process)

    async def write_disk(self, instance_uuid: str, value: int, host: int = HERE) -> None:
        """See `DriverRig`."""
        await write_byte(self._disk(instance_uuid, host), value)

    async def read_disk(self, instance_uuid: str, host: int = HERE) -> int:
        """See `DriverRig`."""
        return await read_byte(self._disk(instance_uuid, host), self.folder / "sector")

    def remains(self) -> Sequence[str]:
        """See `DriverRig`."""
        hosts = {one.name for one in self.hosts}
        folders = [path for one in self.hosts for path in one.state_dir.glob("[!.]*")]
        root = self.folder / "stored"
        stored = [*root.glob("*-*-*-*-*"), *root.glob(".*/*/*"), *root.glob("images/*")]
        return [
            *(str(path) for path in (*folders, *stored)),
            *processes.find(lambda words: " ".join(words) if _is_of(words, hosts) else None),
            *processes.find(self._offers),
        ]

    async def close(self) -> None:
        """See `DriverRig`."""
        for process in self._stalled:
            if process.is_alive():
                os.kill(process.pid, signal.SIGCONT)
        self._stalled.clear()
        for driver in self._drivers.values():
            await driver.close()
        self._drivers.clear()

    async def type(self, instance_uuid: str, letters: str, host: int = HERE) -> None:
        """Send letters to the guest's serial console."""
        folder = QemuFolder(self.hosts[host].state_dir, instance_uuid)
        with socket.socket(socket.AF_UNIX) as line, folder.reaching("serial") as path:
            line.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(line, path)
            await loop.sock_sendall(line, letters.encode())
            await asyncio.sleep(_DEAF_S)  # letters that QEMU has not read at the end are lost

    def process(self, instance_uuid: str, host: int = HERE) -> HostProcess:
        """Return the QEMU process of a guest."""
        name = self.hosts[host].name
        return processes.find(lambda words: guest_of(words, name))[instance_uuid]

    async def _status(self, instance_uuid: str, host: int) -> object:
        qmp = Qmp(lambda _: None)
        with QemuFolder(self.hosts[host].state_dir, instance_uuid).reaching("qmp") as path:
            await qmp.connect(path, timeout_s=10)
        try:
            status = await qmp.execute("query-status")
        finally:
            await qmp.close()
        assert isinstance(status, dict)
        return status["status"]

    def _disk(self, instance_uuid: str, host: int) -> Path:
        return QemuFolder(self.hosts[host].state_dir, instance_uuid).disk("root")

    def _offers(self, words: Sequence[str]) -> str | None:
        text = " ".join(words)
        return text if "storage-daemon" in words[0] and str(self.folder) in text else None


def _is_of(words: Sequence[str], hosts: set[str]) -> bool:
    return any(guest_of(words, host) is not None for host in hosts)


async def write_byte(disk: Path, value: int) -> None:
    """Fill the first 64 KiB of a disk with a byte."""
    await _run("qemu-io", "-f", "qcow2", "-c", f"write -q -P {value} 0 64k", str(disk))


async def read_byte(disk: Path, copied: Path) -> int:
    """Return the byte that fills a disk's first sector, which is copied to a file."""
    what = ("bs=512", "count=1", f"if={disk}", f"of={copied}")
    await _run("qemu-img", "dd", "-f", "qcow2", "-O", "raw", *what)
    (value,) = set(copied.read_bytes())  # noqa: ASYNC240 - one sector
    return value


async def _run(*words: str) -> None:
    process = await asyncio.create_subprocess_exec(*words)
    assert await process.wait() == 0
