"""One guest: its folder, its QEMU process and the connection to that."""

import os
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
_PRESS_NS = 2_000_000_000
"""A guest that is not listening yet has not heard the power button, so it is pressed again."""
_EVENTS = {
    "SHUTDOWN": (Power.STOPPED, "it turned itself off"),
    "STOP": (Power.PAUSED, ""),
    "RESUME": (Power.RUNNING, ""),
    "GUEST_PANICKED": (Power.CRASHED, "its kernel panicked"),
}
_POWERS = {
    "running": (Power.RUNNING, ""),
    "shutdown": (Power.STOPPED, "it turned itself off"),
    "guest-panicked": (Power.CRASHED, "its kernel panicked"),
    "internal-error": (Power.CRASHED, "its processor is in a state that cannot go on"),
    "postmigrate": (Power.PAUSED, "it goes on elsewhere, and is yet to be cleared away here"),
    "io-error": (Power.PAUSED, "its disk does not take what it writes"),
}
"""By QEMU's status; a guest of any other is paused."""
_GONE = "its process is gone"
ARRIVED = "all of it has arrived"
"""What is told of the target of a live migration that is to go on now."""


class Machine:
    """What the driver knows of a guest, and does with its process."""

    def __init__(
        self, host: QemuHost, clock: Clock, spec: GuestSpec, publish: Callable[[GuestEvent], None]
    ) -> None:
        self._clock = clock
        self._host = host
        self._publish = publish
        self._process: HostProcess | None = None
        self._qmp: Qmp | None = None
        self._ends = False
        """Its end, if it comes now, is wanted."""
        self.folder = QemuFolder(host.state_dir, spec.uuid)
        self.spec = spec

    async def start(
        self, image: ImageFile, accelerator: Accelerator, *, memory: int | None = None
    ) -> None:
        """Start QEMU; `memory` is a descriptor of the file that the guest goes on from.

        Raises:
            DriverError: QEMU cannot be started, or complains and ends.
        """
        self.folder.errors.unlink(missing_ok=True)
        if memory is None or not self.spec.accelerator:
            self.record(accelerator=accelerator.value, cpu_model=self._host.cpu_model)
        with ExitStack() as stack:
            listening = [stack.enter_context(self.folder.listening(n)) for n in ("qmp", "serial")]
            fds = [*listening, *([] if memory is None else [memory])]
            sockets = Sockets(*processes.inherited_fds(fds))
            argv = command_line(self._host, accelerator, self.spec, image, sockets)
            try:
                process = processes.start(argv, fds=fds, output=self.folder.errors)
            except OSError as error:
                raise DriverError(f"{argv[0]} cannot be started: {error.strerror}") from error
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
        """Connect to a process of this guest that runs.

        Raises:
            QmpError: it does not answer.
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
                # Some never come to that end, when an agent dies while it is on its way.
                if not await process.wait(_END_S):
                    process.kill()
                    await process.wait(_QUIT_S)
                raise
            except QmpError:
                # Clients that gave up while QEMU hung fill its queue, until it has met them all.
                if left_s <= _POLL_S or not process.is_alive():
                    raise
                await self._clock.sleep(_POLL_S)

    async def detach(self) -> None:
        """Hang up; the guest goes on."""
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
        """Have QEMU do something; see `Qmp.execute`."""
        if self._qmp is None:
            raise QmpError(f"guest {self.spec.uuid} has no process that answers")
        return await self._qmp.execute(command, arguments, fd=fd, timeout_s=timeout_s)

    async def ask(self, command: str) -> Message:
        """Ask QEMU for a record."""
        return cast("Message", await self.execute(command))

    async def status(self) -> str:
        """Return QEMU's status of the guest; empty when there is no process, or it ends.

        Raises:
            QmpError: there is one, and it does not answer.
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

    async def power(self) -> tuple[Power, str]:
        """Return what the guest does, and why if that is known."""
        try:
            status = await self.status()
        except QmpError as error:
            return self.spec.power, str(error)
        if status:
            return _POWERS.get(status, (Power.PAUSED, ""))
        if self.spec.power in (Power.RUNNING, Power.PAUSED):
            return Power.CRASHED, self.folder.last_error() or _GONE
        return self.spec.power, self.spec.reason

    async def press(self, grace_s: float) -> None:
        """Press the power button until the guest has turned itself off, or the time is over."""
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
                press_ns = now_ns  # a process that hangs may go on before the time is over
            await self._clock.sleep(_POLL_S)
            now_ns = self._clock.ticks_ns()

    async def quit(self) -> None:
        """End the process, without asking the guest.

        Raises:
            DriverError: it does not end.
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
                    raise DriverError(f"process {process.pid} of {self.spec.uuid} does not end")
        await self.detach()
        self._process = None

    def record(self, **changes: object) -> None:
        """Change the spec, on disk and here.

        Raises:
            UnwrittenError: the disk does not take it; it is as it was.
        """
        changed = msgspec.structs.replace(self.spec, **changes)
        self.folder.write(changed)
        self.spec = changed

    def set_power(self, power: Power, reason: str = "") -> None:
        """Write down what the guest does, and tell those who follow."""
        self.record(power=power, reason=reason)
        self._publish(GuestEvent(self.spec.uuid, power, reason))

    async def wait_for(self, are_left: Sequence[str]) -> str:
        """Wait until QEMU's status is none of some, and return it; empty when it has ended."""
        while (status := await self.status()) in are_left:
            await self._clock.sleep(_POLL_S)
        return status

    async def save_memory(self) -> None:
        """Have the guest stand still, and write its memory into its file.

        Raises:
            DriverError: it could not be written; the file is gone.
        """
        self.record(is_saving=True)
        await self.execute("stop")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        try:
            fd = os.open(self.folder.memory, flags, 0o600)
        except OSError as error:
            self.give_up_saving()
            raise DriverError(f"the memory cannot be written: {error.strerror}") from error
        try:
            # Left over from a migration these would have QEMU read from the file, or wait.
            await self.set_capabilities({"return-path": False, "pause-before-switchover": False})
            await self.execute("getfd", {"fdname": "memory"}, fd=fd)
            await self.execute("migrate-set-parameters", {"max-bandwidth": 2**40})
            await self.execute("migrate", {"uri": "fd:memory"})
            await self._wait_for_memory()
            os.fsync(fd)
        except (DriverError, OSError) as error:
            self.give_up_saving()
            raise DriverError(str(error)) from error
        finally:
            os.close(fd)

    def give_up_saving(self) -> None:
        """Forget what was written of the memory."""
        self.folder.memory.unlink(missing_ok=True)
        self.record(is_saving=False)

    async def end_saving(self) -> None:
        """End the process of a guest whose memory is in its file."""
        self.record(is_saving=False, power=Power.SUSPENDED, reason="")
        self._publish(GuestEvent(self.spec.uuid, Power.SUSPENDED))
        await self.quit()

    async def settle_saving(self) -> None:
        """Take up the writing of the memory where an agent has left it when it died."""
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
        """Wait for the end of what may be being written, and tell whether it is the memory.

        A guest that has come here by a migration says of it for ever that it is completed.

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
        """Say what a migration is to do, before it begins."""
        capabilities = [{"capability": name, "state": state} for name, state in wanted.items()]
        await self.execute("migrate-set-capabilities", {"capabilities": capabilities})

    async def _wait_for_memory(self) -> None:
        while (state := await self.ask("query-migrate")).get("status") != "completed":
            if state.get("status") in (None, "none", "failed", "cancelled"):
                raise DriverError(f"the memory was not written: {state.get('error-desc', '')}")
            await self._clock.sleep(_POLL_S)

    def _on_event(self, message: Message | None) -> None:
        if message is None:
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
