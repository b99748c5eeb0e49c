"""One guest: its folder, its QEMU process and the QMP connection to it."""

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import cast

import msgspec

from berth.adapters.virt import processes
from berth.adapters.virt.accelerator import Accelerator
from berth.adapters.virt.images import ImageFile
from berth.adapters.virt.processes import HostProcess
from berth.adapters.virt.qemu.command_line import QemuHost, Sockets, command_line
from berth.adapters.virt.qemu.qmp import Message, Qmp, QmpError, QmpRefusedError
from berth.adapters.virt.qemu.spec import GuestSpec, QemuFolder
from berth.domain.errors import DriverError
from berth.ports.clock import Clock
from berth.ports.virt import GuestEvent, Power

_CONNECT_S = 10.0
_ANSWER_S = 5.0
_QUIT_S = 5.0
_END_S = 1.0
_POLL_S = 0.02
# The power button is pressed again after this time, since a booting guest may ignore it.
_PRESS_NS = 2_000_000_000
_EVENTS = {
    "SHUTDOWN": (Power.STOPPED, "it shut itself down"),
    "STOP": (Power.PAUSED, ""),
    "RESUME": (Power.RUNNING, ""),
    "GUEST_PANICKED": (Power.CRASHED, "its kernel panicked"),
}
# The power state and its reason, by QEMU's status. A guest with any other status is paused.
_POWERS = {
    "running": (Power.RUNNING, ""),
    "shutdown": (Power.STOPPED, "it shut itself down"),
    "guest-panicked": (Power.CRASHED, "its kernel panicked"),
    "internal-error": (Power.CRASHED, "its CPU is in a state from which it cannot continue"),
    "postmigrate": (Power.PAUSED, "it has moved to another host, and is not yet removed here"),
    "io-error": (Power.PAUSED, "writing to its disk fails"),
}
_GONE = "its process is gone"
ARRIVED = "all of it has arrived"
"""The reason in the event of a guest whose live migration to this host is complete."""


class Machine:
    """The state of a guest, and the operations on its process.

    Args:
        host: the host's settings.
        clock: provides the time.
        spec: the guest's spec.
        publish: receives the guest's events.
    """

    def __init__(
        self, host: QemuHost, clock: Clock, spec: GuestSpec, publish: Callable[[GuestEvent], None]
    ) -> None:
        self._clock = clock
        self._host = host
        self._publish = publish
        self._process: HostProcess | None = None
        self._qmp: Qmp | None = None
        # Whether the end of the connection is expected, and therefore not published as a crash.
        self._ends = False
        self.folder = QemuFolder(host.state_dir, spec.uuid)
        self.spec = spec

    async def start(
        self, image: ImageFile, accelerator: Accelerator, *, memory: int | None = None
    ) -> None:
        """Start QEMU and connect to it.

        Args:
            image: the image from which the guest boots.
            accelerator: the accelerator.
            memory: a descriptor of the saved memory to continue from; None to boot.

        Raises:
            DriverError: QEMU cannot be started, ended with an error, or does not answer.
        """
        self.folder.errors.unlink(missing_ok=True)
        if memory is None or not self.spec.accelerator:
            self.record(
                accelerator=accelerator.value,
                cpu_model=self._host.cpu_model,
                has_vnc=self._host.vnc,
            )
        # QEMU inherits sockets that already listen, so the driver can connect immediately.
        with ExitStack() as stack:
            listening = [stack.enter_context(self.folder.listening(n)) for n in ("qmp", "serial")]
            fds = [*listening, *([] if memory is None else [memory])]
            sockets = Sockets(*processes.inherited_fds(fds))
            argv = command_line(self._host, accelerator, self.spec, image, sockets)
            try:
                process = processes.start(argv, fds=fds, output=self.folder.errors)
            except OSError as error:
                raise DriverError(
                    f"{argv[0]} cannot be started ({error.strerror}); check virt.binary"
                ) from error
        try:
            await self.attach(process)
        except DriverError as error:
            process.kill()
            await process.wait(_QUIT_S)
            raise DriverError(self.folder.last_error() or str(error)) from error
        except BaseException:
            process.kill()
            raise

    async def attach(self, process: HostProcess) -> None:
        """Connect to a running process of this guest.

        Raises:
            QmpError: the process does not answer within 10 s, or has ended.
            DriverError: the guest's folder cannot be opened.
        """
        self._process, self._ends = process, False
        until_ns = self._clock.ticks_ns() + int(_CONNECT_S * 1e9)
        while self._qmp is None:
            left_s = (until_ns - self._clock.ticks_ns()) / 1e9
            qmp = Qmp(self._on_event)
            try:
                with self.folder.reaching("qmp") as path:
                    await qmp.connect(path, timeout_s=max(left_s, 0.0))
                self._qmp = qmp
            except QmpRefusedError:
                # QEMU closes its socket when it shuts down. It may hang at that point if an agent
                # died meanwhile, so it is killed.
                if not await process.wait(_END_S):
                    process.kill()
                    await process.wait(_QUIT_S)
                raise
            except QmpError:
                # QEMU greets one client at a time. Clients that gave up while it hung are still in
                # its queue, so connecting is repeated until QEMU has processed them all.
                if left_s <= _POLL_S or not process.is_alive():
                    raise
                await self._clock.sleep(_POLL_S)

    def own(self, process: HostProcess | None) -> None:
        """Take a process as that of this guest without connecting to it, so that `quit` ends it."""
        self._process = process

    async def detach(self) -> None:
        """Disconnect; the guest keeps running."""
        self._ends = True
        if self._qmp is not None:
            await self._qmp.close()
            self._qmp = None

    async def execute(
        self,
        command: str,
        arguments: Message | None = None,
        *,
        fd: int | None = None,
        timeout_s: float = 30.0,
    ) -> object:
        """Execute a QMP command; see `Qmp.execute`."""
        if self._qmp is None:
            uuid = self.spec.uuid
            raise QmpError(f"cannot execute {command}: guest {uuid} has no process that answers")
        return await self._qmp.execute(command, arguments, fd=fd, timeout_s=timeout_s)

    async def ask(self, command: str) -> Message:
        """Execute a QMP query, and return the resulting object.

        Raises:
            QmpError: see `Qmp.execute`.
        """
        return cast("Message", await self.execute(command))

    async def status(self) -> str:
        """Return QEMU's status of the guest, or an empty string if it has no process.

        Raises:
            QmpError: the process exists but does not answer.
        """
        process = self._process
        if process is None or not process.is_alive():
            return ""
        try:
            if self._qmp is None or self._qmp.is_closed:
                await self.detach()
                await self.attach(process)
            answer = await self.execute("query-status", timeout_s=_ANSWER_S)
            return cast("dict[str, str]", answer)["status"]
        except QmpError:
            if not process.is_alive():
                return ""
            raise

    async def is_running(self) -> bool:
        """Return whether the guest's CPUs run, over an open QMP connection; False if unknown."""
        try:
            answer = await self.execute("query-status", timeout_s=_ANSWER_S)
        except QmpError:
            return False
        return cast("dict[str, str]", answer)["status"] == "running"

    async def power(self) -> tuple[Power, str]:
        """Return the power state of the guest and its reason, which may be empty.

        If the process does not answer, this returns the last recorded state and the error.
        """
        try:
            status = await self.status()
        except QmpError as error:
            return self.spec.power, str(error)
        if status:
            return _POWERS.get(status, (Power.PAUSED, ""))
        if self.spec.power in (Power.RUNNING, Power.PAUSED):
            return Power.CRASHED, self.folder.last_error() or _GONE
        return self.spec.power, self.spec.reason

    async def open_vnc(self) -> socket.socket:
        """Return a socket that is connected to the guest's VNC server.

        Raises:
            QmpError: QEMU does not answer.
        """
        ours, theirs = socket.socketpair()
        name = f"vnc-{ours.fileno()}"
        arguments = {"protocol": "vnc", "fdname": name, "skipauth": True}
        try:
            with theirs:
                await self.execute("getfd", {"fdname": name}, fd=theirs.fileno())
            await self.execute("add_client", arguments)
        except BaseException:
            ours.close()
            raise
        return ours

    @property
    def pid(self) -> int:
        """The process id of the guest's QEMU.

        Raises:
            DriverError: the guest has no process.
        """
        if self._process is None:
            raise DriverError(f"guest {self.spec.uuid} has no process")
        return self._process.pid

    async def press(self, grace_s: float) -> None:
        """Press the power button until the guest is off or the grace period is over."""
        now_ns = press_ns = self._clock.ticks_ns()
        until_ns = now_ns + int(grace_s * 1e9)
        while now_ns < until_ns:
            try:
                if await self.status() != "running":
                    return
                if now_ns >= press_ns:
                    await self.execute("system_powerdown", timeout_s=_ANSWER_S)
                    press_ns += _PRESS_NS
            except QmpError:
                press_ns = now_ns  # press again immediately when a hanging process recovers
            await self._clock.sleep(_POLL_S)
            now_ns = self._clock.ticks_ns()

    async def quit(self) -> None:
        """End the process without a shutdown of the guest.

        Raises:
            DriverError: the process does not end.
        """
        self._ends = True
        process = self._process
        if process is not None and process.is_alive():
            try:
                await self.execute("quit", timeout_s=_ANSWER_S)
            except QmpError:
                process.kill()
            if not await process.wait(_QUIT_S):
                process.kill()
                if not await process.wait(_QUIT_S):
                    raise DriverError(
                        f"process {process.pid} of guest {self.spec.uuid} is still running "
                        f"{_QUIT_S:g} s after SIGKILL; it may be waiting for a disk that hangs"
                    )
        await self.detach()
        self._process = None

    def record(self, **changes: object) -> None:
        """Change the spec, first on disk and then in memory.

        Raises:
            SpecNotWrittenError: writing failed; the spec is unchanged.
        """
        changed = msgspec.structs.replace(self.spec, **changes)
        self.folder.write(changed)
        self.spec = changed

    def set_power(self, power: Power, reason: str = "") -> None:
        """Record the power state of the guest, and publish it as an event.

        Raises:
            SpecNotWrittenError: the spec cannot be written.
        """
        self.record(power=power, reason=reason)
        self._publish(GuestEvent(self.spec.uuid, power, reason))

    async def wait_for(self, are_left: Sequence[str]) -> str:
        """Wait for a status of QEMU not in `are_left`, and return it; "" if QEMU has ended.

        Raises:
            QmpError: the process exists but does not answer.
        """
        while (status := await self.status()) in are_left:
            await self._clock.sleep(_POLL_S)
        return status

    async def save_memory(self) -> None:
        """Pause the guest, and save its memory to a file.

        Raises:
            DriverError: the memory could not be saved; the file is deleted.
        """
        self.record(is_saving=True)
        await self.execute("stop")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        try:
            fd = os.open(self.folder.memory, flags, 0o600)
        except OSError as error:
            self.give_up_saving()
            reason = (
                f"cannot save the memory of guest {self.spec.uuid} to {self.folder.memory} "
                f"({error.strerror}); check the permissions and the free space"
            )
            raise DriverError(reason) from error
        try:
            # Capabilities of an earlier live migration persist: with return-path QEMU would read
            # from the file, with pause-before-switchover it would wait for a command.
            await self.set_capabilities({"return-path": False, "pause-before-switchover": False})
            await self.execute("getfd", {"fdname": "memory"}, fd=fd)
            # By default QEMU limits the bandwidth to protect other network traffic, which is
            # pointless for a file.
            await self.execute("migrate-set-parameters", {"max-bandwidth": 2**40})
            await self.execute("migrate", {"uri": "fd:memory"})
            await self._wait_for_memory()
            # The memory must be on disk before the guest is recorded as suspended and its process
            # ends.
            os.fsync(fd)
        except (DriverError, OSError) as error:
            self.give_up_saving()
            raise DriverError(str(error)) from error
        finally:
            os.close(fd)

    def give_up_saving(self) -> None:
        """Delete partially saved memory, and record that no memory is being saved.

        Raises:
            SpecNotWrittenError: the spec cannot be written.
        """
        self.folder.memory.unlink(missing_ok=True)
        self.record(is_saving=False)

    async def end_saving(self) -> None:
        """Record that a guest is suspended, and end its process.

        Raises:
            SpecNotWrittenError: the spec cannot be written.
            DriverError: the process does not end.
        """
        self.record(is_saving=False, power=Power.SUSPENDED, reason="")
        self._publish(GuestEvent(self.spec.uuid, Power.SUSPENDED))
        await self.quit()

    async def settle_saving(self) -> None:
        """Complete or undo the saving of memory that an agent began before it died.

        Raises:
            QmpError: the process exists but does not answer.
            SpecNotWrittenError: the spec cannot be written.
            DriverError: the process does not end.
        """
        if not await self.status():
            self.give_up_saving()
            return
        if await self._has_saved():
            await self.end_saving()
            return
        self.give_up_saving()
        if self.spec.power is Power.RUNNING:
            await self.execute("cont")

    async def _has_saved(self) -> bool:
        """Wait for a save that may be in progress; return whether the memory is saved.

        QEMU's migration status does not suffice: a guest that arrived by live migration reports
        "completed" forever. Therefore the file and the run state are also checked.

        Raises:
            QmpError: the process does not answer.
        """
        try:
            await self._wait_for_memory()
            is_written = self.folder.memory.stat().st_size > 0
        except QmpError:
            raise
        except (DriverError, OSError):
            return False
        return is_written and await self.status() == "postmigrate"

    async def set_capabilities(self, wanted: Mapping[str, bool]) -> None:
        """Set the capabilities of the next migration.

        Raises:
            QmpError: QEMU rejected the command, or does not answer.
        """
        capabilities = [{"capability": name, "state": state} for name, state in wanted.items()]
        await self.execute("migrate-set-capabilities", {"capabilities": capabilities})

    async def _wait_for_memory(self) -> None:
        while (state := await self.ask("query-migrate")).get("status") != "completed":
            if state.get("status") in (None, "none", "failed", "cancelled"):
                reason = state.get("error-desc") or "QEMU gives no reason"
                raise DriverError(f"cannot save the memory of guest {self.spec.uuid}: {reason}")
            await self._clock.sleep(_POLL_S)

    def _on_event(self, message: Message | None) -> None:
        if message is None:
            # The connection has ended. Unless this was expected, the process has also ended.
            if self._qmp is not None and not self._ends:
                self._publish(GuestEvent(self.spec.uuid, Power.CRASHED, _GONE))
            return
        name = cast("str", message["event"])
        if name == "MIGRATION" and self.spec.waits:
            if cast("Message", message["data"])["status"] == "completed":
                self._publish(GuestEvent(self.spec.uuid, Power.PAUSED, ARRIVED))
            return
        if name in _EVENTS and not self._ends:
            self._publish(GuestEvent(self.spec.uuid, *_EVENTS[name]))
