"""Two hosts, each with a libvirtd of its own, for the driver's conformance suite."""

import asyncio
import itertools
import os
import signal
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

import pytest

from berth.adapters.system import SystemClock
from berth.adapters.virt import processes
from berth.adapters.virt.accelerator import Accelerator
from berth.adapters.virt.guest_folder import GuestFolder
from berth.adapters.virt.inventory import InventorySettings
from berth.adapters.virt.libvirt import binding
from berth.adapters.virt.libvirt.domain_xml import NAME_PREFIX, name_of
from berth.adapters.virt.libvirt.driver import LibvirtDriver
from berth.adapters.virt.libvirt.host import LibvirtHost
from berth.adapters.virt.processes import HostProcess
from berth.testing.driver_conformance.rig import HERE, RESCUE_IMAGE, THERE, eventually
from berth.testing.private_libvirt import PrivateLibvirt, lacking, private_libvirt
from tests.conformance.qemu_rig import (
    STUB,
    read_byte,
    require_qemu,
    rescue_image,
    stub_image,
    write_byte,
)

_NUMBERS = itertools.count(1)
_DEAF_S = 0.2


class Daemon(NamedTuple):
    """A private libvirtd, and the folder of its state."""

    libvirt: PrivateLibvirt
    folder: Path


def require_libvirt() -> None:
    """Skip the test if a private libvirtd cannot run here."""
    require_qemu()
    if reason := lacking():
        pytest.skip(reason)


@contextmanager
def two_daemons(folder: Path) -> Generator[Sequence[Daemon]]:
    """Run two private libvirtds and yield them."""
    require_libvirt()
    folders = [folder / "libvirt-1", folder / "libvirt-2"]
    uuids = [f"{number:08x}-1111-4111-8111-{os.getpid():012x}" for number in (1, 2)]
    with private_libvirt(folders[0], uuids[0]) as one, private_libvirt(folders[1], uuids[1]) as two:
        yield [Daemon(one, folders[0]), Daemon(two, folders[1])]


class LibvirtRig:
    """See `DriverRig`."""

    def __init__(self, folder: Path, daemons: Sequence[Daemon]) -> None:
        number = f"{os.getpid()}-{next(_NUMBERS)}"
        self.folder = folder
        self.daemons = daemons
        self.images = {STUB: stub_image(folder), RESCUE_IMAGE.image_id: rescue_image(folder)}
        self.hosts = [
            LibvirtHost(
                name=f"berth-test-{number}-{host}",
                state_dir=folder / f"state-{host}",
                uri=daemon.libvirt.uri,
                peer_uri=daemon.libvirt.uri,
                accelerator=Accelerator.TCG,
                storage_dir=folder / "stored",
                vnc=True,
            )
            for host, daemon in enumerate(daemons)
        ]
        self._drivers: dict[int, LibvirtDriver] = {}
        self._stalled: list[HostProcess] = []
        self._stalling: asyncio.Task[None] | None = None

    async def open(self, host: int = HERE) -> LibvirtDriver:
        """See `DriverRig`."""
        if (old := self._drivers.pop(host, None)) is not None:
            await old.close()
        one = self.hosts[host]
        driver = LibvirtDriver(one, self.images, SystemClock(), InventorySettings(one.state_dir))
        self._drivers[host] = driver
        return driver

    async def crash(self, instance_uuid: str, host: int = HERE) -> None:
        """See `DriverRig`."""
        self.process(instance_uuid, host).kill()
        await self._is_off(instance_uuid, host)

    async def turn_off(self, instance_uuid: str, host: int = HERE) -> None:
        """See `DriverRig`."""
        with self._typing(instance_uuid, "p", host):
            await self._is_off(instance_uuid, host)

    async def deafen(self, instance_uuid: str, host: int = HERE) -> None:
        """See `DriverRig`."""
        console = GuestFolder(self.hosts[host].state_dir, instance_uuid).console
        before = console.read_text().count("tick")
        with self._typing(instance_uuid, "th", host):

            async def has_read() -> bool:
                return console.read_text().count("tick") > before

            await eventually(has_read)
            await asyncio.sleep(_DEAF_S)  # the second letter arrives within one tick

    async def forget(self, instance_uuid: str, host: int = HERE) -> None:
        """See `DriverRig`."""
        with self._connected(host) as connect:
            connect.lookupByUUIDString(instance_uuid).undefineFlags(0)

    async def stall(self, instance_uuid: str) -> None:
        """See `DriverRig`."""

        async def stop_it() -> None:
            pids = self.daemons[THERE].folder / f"run/qemu/{name_of(instance_uuid)}.pid"
            while not pids.exists() or not await asyncio.to_thread(self._arrives, pids):  # noqa: ASYNC110
                await asyncio.sleep(0.002)
            process = self.process(instance_uuid, THERE)
            os.kill(process.pid, signal.SIGSTOP)
            self._stalled.append(process)

        with self._connected(HERE) as connect:
            # At libvirt's lowest speed, or the move would end before it is noticed.
            connect.lookupByUUIDString(instance_uuid).migrateSetMaxSpeed(1)  # type: ignore[attr-defined]
        self._stalling = asyncio.ensure_future(stop_it())

    async def is_stalled(self) -> None:
        """Wait until the target of a move that `stall` was called for is stopped."""
        assert self._stalling is not None
        await self._stalling

    async def go_on(self, instance_uuid: str) -> None:
        """Let a stalled move continue at full speed."""
        while self._stalled:
            os.kill(self._stalled.pop().pid, signal.SIGCONT)
        with self._connected(HERE) as connect:
            domain = connect.lookupByUUIDString(instance_uuid)
            await asyncio.to_thread(domain.migrateSetMaxSpeed, 1000)  # type: ignore[attr-defined]

    async def write_disk(self, instance_uuid: str, value: int, host: int = HERE) -> None:
        """See `DriverRig`."""
        await write_byte(self._disk(instance_uuid, host), value)

    async def read_disk(self, instance_uuid: str, host: int = HERE) -> int:
        """See `DriverRig`."""
        return await read_byte(self._disk(instance_uuid, host), self.folder / "sector")

    def remains(self) -> Sequence[str]:
        """See `DriverRig`."""
        found: list[str] = []
        for host, one in enumerate(self.hosts):
            found += [str(path) for path in one.state_dir.glob("[!.]*")]
            with self._connected(host) as connect:
                found += [domain.name() for domain in connect.listAllDomains()]
        for pattern in ("*-*-*-*-*", "images/*"):
            found += [str(path) for path in (self.folder / "stored").glob(pattern)]
        return [*found, *processes.find(self._offers)]

    async def close(self) -> None:
        """See `DriverRig`."""
        if self._stalling is not None:
            self._stalling.cancel()
            await asyncio.gather(self._stalling, return_exceptions=True)
            self._stalling = None
        for process in self._stalled:
            if process.is_alive():
                os.kill(process.pid, signal.SIGCONT)
        self._stalled.clear()
        for driver in self._drivers.values():
            await driver.close()
        self._drivers.clear()

    def process(self, instance_uuid: str, host: int = HERE) -> HostProcess:
        """Return the QEMU process of a guest."""
        pid_file = self.daemons[host].folder / f"run/qemu/{name_of(instance_uuid)}.pid"
        pid = int(pid_file.read_text())
        found = processes.find(lambda words: words[0] if instance_uuid in words else None)
        (process,) = [
            HostProcess(pid, one.started_ticks) for one in found.values() if one.pid == pid
        ] or [self._started(pid)]
        return process

    def _started(self, pid: int) -> HostProcess:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return HostProcess(pid, int(fields[19]))

    def _arrives(self, pid_file: Path) -> bool:
        """Tell whether a guest's memory has begun to arrive."""
        try:
            pid = pid_file.read_text().strip()
            mine = {str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()}
        except OSError:
            return False
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        ports = {words[1] for words in lines if words[3] == "0A" and f"socket:[{words[9]}]" in mine}
        return any(words[1] in ports and words[3] == "01" for words in lines)

    @contextmanager
    def _typing(self, instance_uuid: str, letters: str, host: int) -> Generator[None]:
        """Type on the guest's serial console, and hold it open so that QEMU can read."""
        with self._connected(host) as connect:
            xml = connect.lookupByUUIDString(instance_uuid).XMLDesc(0)
        source = ET.fromstring(xml).find("devices/serial/source")  # noqa: S314 - libvirt wrote it
        assert source is not None
        fd = os.open(source.get("path", ""), os.O_RDWR | os.O_NOCTTY)
        try:
            os.write(fd, letters.encode())
            yield
        finally:
            os.close(fd)

    @contextmanager
    def _connected(self, host: int) -> Generator[binding.Connect]:
        connect = binding.load().open(self.daemons[host].libvirt.uri)
        try:
            yield connect
        finally:
            connect.close()

    async def _is_off(self, instance_uuid: str, host: int) -> None:
        with self._connected(host) as connect:
            domain = connect.lookupByUUIDString(instance_uuid)

            async def is_so() -> bool:
                return not domain.isActive()

            await eventually(is_so)

    def _disk(self, instance_uuid: str, host: int) -> Path:
        return GuestFolder(self.hosts[host].state_dir, instance_uuid).disk("root")

    def _offers(self, words: Sequence[str]) -> str | None:
        text = " ".join(words)
        return text if "storage-daemon" in words[0] and str(self.folder) in text else None


__all__ = ["NAME_PREFIX", "Daemon", "LibvirtRig", "require_libvirt", "two_daemons"]
