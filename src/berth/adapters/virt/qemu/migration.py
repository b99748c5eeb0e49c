"""Live migration between two QEMU processes: of the memory, and of the disks as NBD mirrors.

With disks the order matters: the source's mirrors end while its guest is paused for the last time.
Only then does the target receive the remaining memory and close its NBD server.
"""

import contextlib
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast
from urllib.parse import parse_qs, urlencode

from berth.adapters.virt.nbd_export import wait_for_server
from berth.adapters.virt.peer_addresses import Networks, checked_port, peer_address
from berth.adapters.virt.qemu.machine import Machine
from berth.adapters.virt.qemu.qmp import QmpError
from berth.adapters.virt.refusals import IS_RESCUED
from berth.domain.errors import DriverError, MigrationError, UnavailableError
from berth.ports.clock import Clock

_SCHEME = "qemu"
_POLL_S = 0.02
_ARRIVING = ("inmigrate", "finish-migrate", "")
_UNDER_WAY = ("setup", "active", "device", "pre-switchover", "wait-unplug")
_FAILED = ("failed", "cancelled")
# With return-path the target confirms that it has received everything. Without it, "completed" at
# the source would only mean that everything was sent.
_BOTH = {"events": True, "return-path": True}


async def listen_for_guest(machine: Machine, address: str) -> str:
    """Make a waiting QEMU listen for a live migration, and return the address.

    Args:
        machine: the waiting guest.
        address: the address of this host for other hosts.

    Raises:
        QmpError: QEMU rejected a command, or does not answer.
    """
    await machine.set_capabilities(_BOTH)
    ports: dict[str, str | int] = {}
    if machine.spec.disks:
        ports["disks"] = await _export_disks(machine, address)
        ports["names"] = ",".join(machine.spec.disks)
    await machine.execute("migrate-incoming", {"uri": f"tcp:{_bracketed(address)}:0"})
    state = await machine.ask("query-migrate")
    (listening, *_) = cast("list[dict[str, str]]", state["socket-address"])
    query = f"?{urlencode(ports)}" if ports else ""
    return f"{_SCHEME}://{_bracketed(address)}:{listening['port']}/{machine.spec.uuid}{query}"


async def resume_if_arrived(machine: Machine) -> bool:
    """Continue a guest if its migration to this host is complete; return False if it is not.

    Raises:
        QmpError: QEMU rejected a command, or does not answer.
        SpecNotWrittenError: the spec cannot be written.
    """
    status = await machine.status()
    if status in _ARRIVING:
        return False
    if machine.spec.disks and status != "running":
        state = (await machine.ask("query-migrate")).get("status")
        if state != "completed":
            return False
        with contextlib.suppress(QmpError):  # an earlier attempt may have stopped the server
            await machine.execute("nbd-server-stop")
        await machine.execute("cont")
    machine.record(waits=False)
    return True


class QemuMigration:
    """One live migration away from this host.

    Args:
        machine: the guest.
        clock: provides the time.
        networks: the networks that must contain the destination's address; empty allows any.
    """

    def __init__(self, machine: Machine, clock: Clock, networks: Networks = ()) -> None:
        self._machine = machine
        self._networks = networks
        self._clock = clock
        self._is_cancelled = False

    async def cancel(self) -> None:
        """Cancel the migration, ignoring errors."""
        self._is_cancelled = True
        with contextlib.suppress(DriverError):
            await self._machine.execute("migrate_cancel")

    async def run(self, address: str) -> None:
        """Migrate the guest; afterwards its process here is paused.

        A migration that an earlier agent began is continued.

        Raises:
            MigrationError: the migration failed, and the guest runs here.
            UnavailableError: QEMU does not answer, so the outcome is unknown.
        """
        machine = self._machine
        try:
            ran = await machine.status() == "running"
        except QmpError as error:
            # An earlier agent may have begun a migration that has completed meanwhile.
            raise self._undetermined(error) from error
        try:
            state = (await machine.ask("query-migrate")).get("status")
            if state in _UNDER_WAY or await machine.status() == "postmigrate":
                await self._follow()
            else:
                await self._begin(address)
        except DriverError as error:
            if await self._has_left():
                return
            await self._go_on(ran=ran)
            uuid = machine.spec.uuid
            raise MigrationError(f"guest {uuid} stays on this host: {error}") from error

    async def _begin(self, address: str) -> None:
        if self._machine.spec.rescue_image:
            raise DriverError(f"cannot move guest {self._machine.spec.uuid}: {IS_RESCUED}")
        peer = peer_address(address, _SCHEME, self._networks)
        if peer.port is None or peer.parts.path != f"/{self._machine.spec.uuid}":
            raise DriverError(
                f"cannot migrate to {address[:200]!r}, because that is not an address of a QEMU "
                "driver for this guest; use the same driver on both hosts"
            )
        host, query = peer.host, parse_qs(peer.parts.query)
        has_disks = bool(self._machine.spec.disks)
        if has_disks and query.get("names") != [",".join(self._machine.spec.disks)]:
            # QEMU matches devices by position, so it would mistake one disk for another.
            raise DriverError(
                "the target has different disks; restart the guest, so that a pending resize is "
                "applied"
            )
        if has_disks and await self._machine.status() != "running":
            raise DriverError("a paused guest with disks cannot be migrated; unpause it first")
        capabilities = {**_BOTH, "pause-before-switchover": has_disks}
        await self._machine.set_capabilities(capabilities)
        async with self._mirrors(host, query.get("disks", [""])[0]):
            self._check()
            uri = f"tcp:{_bracketed(host)}:{peer.port}"
            await self._machine.execute("migrate", {"uri": uri})
            await self._follow()

    async def _follow(self) -> None:
        """Wait for the end of the migration.

        Raises:
            DriverError: the migration failed or was cancelled.
        """
        while True:
            state = await self._machine.ask("query-migrate")
            status = state.get("status")
            if status == "completed":
                return
            if status in _FAILED:
                reason = state.get("error-desc") or f"QEMU only reports the status {status!r}"
                raise DriverError(f"the migration ended without success: {reason}")
            if status == "pre-switchover":
                # The guest is paused for the last time, so the mirrors are complete. They must end
                # before the switchover, after which the target writes to the disks.
                await self._end_mirrors()
                await self._machine.execute("migrate-continue", {"state": "pre-switchover"})
            await self._clock.sleep(_POLL_S)

    @asynccontextmanager
    async def _mirrors(self, host: str, port: str) -> AsyncGenerator[None]:
        """Mirror the disks to the target within the context, including new writes of the guest.

        The context begins when all existing data is copied.

        Raises:
            DriverError: the target does not accept the disks, a disk could not be copied, or the
                migration was cancelled.
        """
        disks = self._machine.spec.disks
        if disks and not port:
            raise DriverError(
                "cannot copy the guest's disks: the target's address names no port for them; check "
                "that both hosts run the same version of Berth, and migrate again"
            )
        if disks:
            # The server is checked here, since QEMU connects synchronously: it would hang with its
            # guest until the server answers.
            await wait_for_server(host, checked_port(port))
            await self._clear_mirrors()  # an agent that died may have left some
        try:
            for name in disks:
                await self._mirror(name, host, port)
            # A job is "ready" when all data is copied and only new writes follow.
            while not all(job.get("ready") for job in await self._jobs()):
                self._check()
                await self._clock.sleep(_POLL_S)
            # A failed job disappears from the list.
            copied = {job["device"] for job in await self._jobs()}
            if failed := [name for name in disks if _job_of(name) not in copied]:
                raise DriverError(
                    f"cannot copy the disks {', '.join(failed)} to the target; check the free "
                    "space there and the network"
                )
            yield
        finally:
            await self._clear_mirrors()

    async def _clear_mirrors(self) -> None:
        """End all mirrors and remove their targets, ignoring errors."""
        with contextlib.suppress(DriverError):
            await self._end_mirrors(force=True)
        for name in self._machine.spec.disks:
            with contextlib.suppress(DriverError):
                await self._machine.execute("blockdev-del", {"node-name": f"move-{name}"})

    async def _mirror(self, name: str, host: str, port: str) -> None:
        server = {"type": "inet", "host": host, "port": port}
        node = {"driver": "nbd", "node-name": f"move-{name}", "server": server, "export": name}
        await self._machine.execute("blockdev-add", node)
        job = {"job-id": _job_of(name), "device": name, "target": f"move-{name}", "sync": "full"}
        await self._machine.execute("blockdev-mirror", job)

    async def _jobs(self) -> list[dict[str, object]]:
        found = await self._machine.execute("query-block-jobs")
        return cast("list[dict[str, object]]", found)

    async def _end_mirrors(self, *, force: bool = False) -> None:
        for job in await self._jobs():
            with contextlib.suppress(DriverError):  # the job may have ended by itself
                await self._machine.execute(
                    "block-job-cancel", {"device": job["device"], "force": force}
                )
        while await self._jobs():
            await self._clock.sleep(_POLL_S)

    def _check(self) -> None:
        if self._is_cancelled:
            raise DriverError("the migration was cancelled")

    async def _has_left(self) -> bool:
        """Wait for the end of a failed migration; return whether the guest has left after all.

        Raises:
            UnavailableError: QEMU does not answer. It controls the migration and may have completed
                it, so silence does not mean failure.
        """
        machine = self._machine
        try:
            while status := await machine.status():
                state = (await machine.ask("query-migrate")).get("status")
                if status == "postmigrate" and state == "completed":
                    return True
                if state not in (*_UNDER_WAY, "cancelling"):
                    return False
                await machine.execute("migrate_cancel")
                await self._clock.sleep(_POLL_S)
        except DriverError as error:
            raise self._undetermined(error) from error
        return False

    def _undetermined(self, error: DriverError) -> UnavailableError:
        uuid = self._machine.spec.uuid
        return UnavailableError(f"cannot determine whether guest {uuid} has moved: {error}")

    async def _go_on(self, *, ran: bool) -> None:
        """Continue a guest that ran before a failed migration, unless QEMU has done so itself."""
        with contextlib.suppress(DriverError):
            if ran and await self._machine.status() not in ("running", ""):
                await self._machine.execute("cont")


async def _export_disks(machine: Machine, address: str) -> int:
    """Export the disks of a waiting guest for writing, and return the port."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        # QEMU is given a listening socket, so that the system chooses the port.
        listening.bind((address, 0))
        listening.listen(8)
        await machine.execute("getfd", {"fdname": "nbd"}, fd=listening.fileno())
        port = int(listening.getsockname()[1])
    await machine.execute("nbd-server-start", {"addr": {"type": "fd", "data": {"str": "nbd"}}})
    for name in machine.spec.disks:
        export = {"type": "nbd", "id": f"move-{name}", "node-name": name, "name": name}
        await machine.execute("block-export-add", {**export, "writable": True})
    return port


def _job_of(disk: str) -> str:
    return f"move-{disk}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
