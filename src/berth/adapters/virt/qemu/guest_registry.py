"""The guests of a host, found through their folders and processes."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from berth.adapters.virt import disks, nbd_export, processes
from berth.adapters.virt.guest_folder import claim_state_dir
from berth.adapters.virt.processes import HostProcess
from berth.adapters.virt.qemu import migration
from berth.adapters.virt.qemu.command_line import QemuHost, guest_of
from berth.adapters.virt.qemu.disk_backup import end_earlier_backup
from berth.adapters.virt.qemu.machine import Machine
from berth.adapters.virt.qemu.qmp import QmpError
from berth.adapters.virt.qemu.spec import GuestSpec, QemuFolder, SpecNotWrittenError
from berth.domain.errors import DriverError
from berth.domain.uuids import is_uuid
from berth.ports.clock import Clock
from berth.ports.virt import GuestEvent, Power

_END_S = 5.0


class QemuGuestRegistry:
    """Finds guests, and adopts those of earlier drivers at the first access.

    The first access raises DriverError if the folder of the guests belongs to another host.

    Args:
        host: the host's settings.
        clock: provides the time.
        publish: receives the events of guests.
    """

    def __init__(self, host: QemuHost, clock: Clock, publish: Callable[[GuestEvent], None]) -> None:
        self._host = host
        self._clock = clock
        self._publish = publish
        self._machines: dict[str, Machine] = {}
        # The running guests of an earlier driver, which may be copying a disk for it.
        self._taken_up: set[str] = set()
        self._adopting = asyncio.Lock()
        self._has_adopted = False

    def __contains__(self, instance_uuid: str) -> bool:
        return instance_uuid in self._machines

    async def machines(self) -> list[Machine]:
        """Return all guests of the host in their last known state, without orphans."""
        await self._adopt()
        return list(self._machines.values())

    async def get(self, instance_uuid: str) -> Machine | None:
        """Return a guest in its last known state, or None if it is unknown."""
        await self._adopt()
        return self._machines.get(instance_uuid)

    async def find(self, instance_uuid: str) -> Machine | None:
        """Return a guest in its current state, or None if it does not exist.

        The caller must hold the guest's lock, since this removes the remains of an unfinished build
        or removal, or of a failed live migration to this host.
        """
        machine = await self.get(instance_uuid)
        if machine is None:
            return None
        if machine.spec.is_built:
            await self.settle(machine)
        else:
            await self.remove(machine)
        return self._machines.get(instance_uuid)

    async def settle(self, machine: Machine) -> str:
        """Record what has happened to a guest since the last access.

        Returns:
            The reason why the current state is unknown, or an empty string.
        """
        machine.folder.trim_console()
        try:
            if machine.spec.is_saving:
                await machine.settle_saving()
            status = await machine.status()
            if status and machine.spec.uuid in self._taken_up:
                await self._end_earlier_backup(machine)
            if machine.spec.waits:
                if not status:
                    await self.remove(machine)  # the migration failed, and QEMU has ended
                else:
                    await migration.resume_if_arrived(machine)
            elif status == "shutdown":
                machine.record(power=Power.STOPPED, reason="it shut itself down")
                await machine.quit()
        except (QmpError, SpecNotWrittenError) as error:
            return str(error)
        return ""

    async def _end_earlier_backup(self, machine: Machine) -> None:
        """End the copy of a disk that no agent waits for, unless that takes long; see `settle`."""
        if await end_earlier_backup(machine, self._clock):
            self._taken_up.discard(machine.spec.uuid)

    async def orphans(self) -> list[str]:
        """Return the uuids of running guests without a known folder."""
        await self._adopt()
        known = set(self._machines)
        running = await self._running()
        # The known guests are read before and after listing the processes, since a guest may be
        # created or destroyed meanwhile.
        return sorted(running.keys() - known - self._machines.keys())

    async def end_orphan(self, instance_uuid: str) -> None:
        """End the programs of an unknown guest, if there are any, and delete its folder.

        Raises:
            DriverError: a process does not end, or the folder cannot be deleted.
        """
        process = (await self._running()).get(instance_uuid)
        if process is not None:
            process.kill()
            if not await process.wait(_END_S):
                raise DriverError(
                    f"process {process.pid} of guest {instance_uuid} is still running {_END_S:g} s "
                    "after SIGKILL; it may be waiting for a disk that hangs"
                )
        folder = QemuFolder(self._host.state_dir, instance_uuid)
        await self._clear(folder)

    def add(self, spec: GuestSpec) -> Machine:
        """Create the folder of a new guest, and register the guest.

        Raises:
            DriverError: the folder contains files of an unknown guest, or cannot be written.
        """
        machine = self._machine(spec)
        machine.folder.make()
        machine.folder.write(spec)
        self._machines[spec.uuid] = machine
        return machine

    async def remove(self, machine: Machine) -> None:
        """End all programs of a guest, and delete its folder.

        Raises:
            DriverError: a process does not end, or the folder cannot be deleted. The guest is still
                known, so that the removal is tried again.
        """
        await machine.quit()
        await self._clear(machine.folder)
        self._machines.pop(machine.spec.uuid, None)
        self._taken_up.discard(machine.spec.uuid)

    async def _clear(self, folder: QemuFolder) -> None:
        """Delete the folder of a guest without a process, once no other program uses it."""
        await nbd_export.withdraw(folder)
        # A qemu-img of an earlier agent outlives it, and would create its file after the removal.
        await disks.end_programs(folder.path)
        await asyncio.to_thread(folder.remove)

    async def close(self) -> None:
        """Disconnect from all guests."""
        for machine in self._machines.values():
            await machine.detach()
        self._machines.clear()
        self._has_adopted = False

    async def _adopt(self) -> None:
        async with self._adopting:
            if self._has_adopted:
                return
            self._host.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            claim_state_dir(self._host.state_dir, self._host.name)
            # All processes are listed once, rather than once for each folder.
            running = await self._running()
            for path in sorted(self._host.state_dir.iterdir()):
                if not is_uuid(path.name):
                    continue  # lost+found, the record of the owner, or an operator's own file
                folder = QemuFolder(self._host.state_dir, path.name)
                try:
                    spec = folder.read()
                except DriverError:
                    continue  # the guest, if it runs, is an orphan; its files are left alone
                if spec is not None:
                    self._machines[spec.uuid] = self._machine(spec)
            await asyncio.gather(
                *(
                    self._take_up(machine, running.get(uuid))
                    for uuid, machine in list(self._machines.items())
                )
            )
            self._taken_up = set(running.keys() & self._machines.keys())
            self._has_adopted = True

    async def _take_up(self, machine: Machine, process: HostProcess | None) -> None:
        if not machine.spec.is_built:
            machine.own(process)
            with suppress(DriverError):  # the next listing of the guests tries again
                await self.remove(machine)
            return
        if process is None:
            return
        try:
            await machine.attach(process)
        except QmpError:
            return  # each later access tries again
        if machine.spec.power not in (Power.RUNNING, Power.PAUSED):
            # An agent died after starting the guest, or before ending its process.
            machine.record(power=Power.RUNNING, reason="")

    def _machine(self, spec: GuestSpec) -> Machine:
        return Machine(self._host, self._clock, spec, self._publish)

    async def _running(self) -> dict[str, HostProcess]:
        def of_host(words: Sequence[str]) -> str | None:
            return guest_of(words, self._host.name)

        return await asyncio.to_thread(processes.find, of_host)
