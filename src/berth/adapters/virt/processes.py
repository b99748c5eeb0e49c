"""Functions to start, find and end processes that outlive the agent, and to run programs.

A pid does not identify a process, because it may have been reused. Therefore a process is
identified by its pid and start time, and found by its command line.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from berth.domain.errors import DriverError

_PROC = Path("/proc")
_POLL_S = 0.01
_FIRST_FREE_FD = 3
_ERROR_CHARS = 500
_KILLED_S = 5.0
_STARTING_LOOKS = 5
_STARTING_S = 0.002


@dataclass(frozen=True, slots=True)
class HostProcess:
    """A process, identified by its pid and its start in clock ticks since boot."""

    pid: int
    started_ticks: int

    def is_alive(self) -> bool:
        """Return whether the process is alive; a zombie child of this process is reaped."""
        state = _state_of(self.pid)
        if state is None or state[1] != self.started_ticks:
            return False
        if state[0] not in "ZX":
            return True
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)
        return False

    def kill(self) -> None:
        """Kill the process, if it is alive."""
        with contextlib.suppress(ProcessLookupError):
            # A pidfd stays bound to one process. Otherwise the pid could be reused between the
            # check and the signal.
            fd = os.pidfd_open(self.pid)
            try:
                if self.is_alive():
                    signal.pidfd_send_signal(fd, signal.SIGKILL)
            finally:
                os.close(fd)

    async def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the process; return whether it ended in time."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + timeout_s
        while self.is_alive():
            if loop.time() >= until_s:
                return False
            await asyncio.sleep(_POLL_S)
        return True


def start(argv: Sequence[str], *, fds: Sequence[int], output: Path) -> HostProcess:
    """Start a process in its own session, so that it survives the end of this one.

    Args:
        argv: the program, looked up in PATH, and its arguments, which name descriptors as
            `inherited_fds` returns them.
        fds: the descriptors to inherit, renumbered by `inherited_fds`.
        output: the file that receives standard output and error.

    Raises:
        OSError: the program cannot be started.
    """
    targets = inherited_fds(fds)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(output), flags, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
        *((os.POSIX_SPAWN_DUP2, fd, target) for fd, target in zip(fds, targets, strict=True)),
    ]
    # subprocess.Popen would warn when its object is dropped before the process has ended.
    pid = os.posix_spawnp(argv[0], list(argv), os.environ, file_actions=actions, setsid=True)
    state = _state_of(pid)
    return HostProcess(pid, state[1] if state is not None else 0)


def inherited_fds(fds: Sequence[int]) -> list[int]:
    """Return the descriptors that stand for the given ones in a child process, in the same order.

    No returned descriptor is in `fds`, so that no copy overwrites one that is yet to be copied.
    """
    found: list[int] = []
    number = _FIRST_FREE_FD
    while len(found) < len(fds):
        if number not in fds:
            found.append(number)
        number += 1
    return found


def find(of_interest: Callable[[Sequence[str]], str | None]) -> dict[str, HostProcess]:
    """Return the live processes by the key that `of_interest` derives from their command lines.

    Processes for which `of_interest` returns None are left out. Of several processes with one key,
    only one is returned.
    """
    found: dict[str, HostProcess] = {}
    for folder in _PROC.iterdir():
        if not folder.name.isdigit():
            continue
        pid = int(folder.name)
        words = _words_of(pid)
        key = of_interest(words) if words else None
        state = _state_of(pid) if key is not None else None
        if key is not None and state is not None and state[0] not in "ZX":
            found[key] = HostProcess(pid, state[1])
    return found


def holding(folder: Path) -> list[HostProcess]:
    """Return the other live processes with an open descriptor of a folder (`O_PATH`).

    Other programs rarely have such a descriptor. A program that inherits it (`run`) is found from
    the moment of the fork, when its command line is still that of its parent.
    """
    wanted, own = os.path.realpath(folder), os.getpid()
    found: list[HostProcess] = []
    for entry in _PROC.iterdir():
        if not entry.name.isdigit() or int(entry.name) == own or not _is_marked(entry, wanted):
            continue
        state = _state_of(int(entry.name))
        # A child of this process between fork and exec has all descriptors of this process, not
        # only its own; and `run` itself ends the programs that this process has started.
        if state is not None and state[0] not in "ZX" and state[2] != own:
            found.append(HostProcess(int(entry.name), state[1]))
    return found


def _is_marked(process: Path, folder: str) -> bool:
    try:
        return any(_is_mark(process, one.name, folder) for one in (process / "fd").iterdir())
    except OSError:
        return False  # it is gone, or it belongs to another user


def _is_mark(process: Path, fd: str, folder: str) -> bool:
    try:
        if str((process / "fd" / fd).readlink()) != folder:
            return False
        text = (process / "fdinfo" / fd).read_text()
    except OSError:
        return False  # it was closed meanwhile
    flags = dict(line.split(None, 1) for line in text.splitlines() if ":" in line)["flags:"]
    return bool(int(flags, 8) & os.O_PATH)


def _words_of(pid: int) -> list[str]:
    """Return the command line of a process; empty if it is a kernel thread, a zombie or gone."""
    for _ in range(_STARTING_LOOKS):
        try:
            text = (_PROC / str(pid) / "cmdline").read_bytes()
            # During execve a process briefly has no command line, so it is read again. Kernel
            # threads and zombies never have one; their `exe` links lead nowhere.
            if text or not (_PROC / str(pid) / "exe").exists():
                return text.decode(errors="replace").split("\0") if text else []
        except OSError:
            return []
        time.sleep(_STARTING_S)
    return []


def _state_of(pid: int) -> tuple[str, int, int] | None:
    """Return the state letter, start time and parent of a process; None if it does not exist."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The name before the last parenthesis may itself contain spaces and parentheses.
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[19]), int(fields[1])


async def run(*words: str, idle_s: float | None = None, fds: Sequence[int] = ()) -> bytes:
    """Run a program and return its standard output; cancelling the caller kills the program.

    Args:
        words: the program and at least one argument.
        idle_s: the program is killed after this many seconds without any use of CPU time, as when
            the server that it reads from does not answer; None for no limit.
        fds: descriptors that the program inherits under the same numbers.

    Raises:
        DriverError: the program is not installed, failed, or was killed for being idle.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            pass_fds=tuple(fds),
        )
    except OSError as error:
        raise DriverError(
            f"{words[0]} cannot be started ({error.strerror}); check that it is installed"
        ) from error
    talking = asyncio.ensure_future(process.communicate())
    try:
        await _watch(talking, process.pid, idle_s)
        if not talking.done():
            raise DriverError(
                f"{words[0]} {words[1]} was killed, because it made no progress for {idle_s:g} s; "
                "check the host's storage and network"
            )
        output, errors = await talking
    finally:
        if not talking.done():
            process.kill()
            # The wait has a limit, since even a killed process cannot end while it waits for a disk
            # that hangs.
            await asyncio.wait({talking}, timeout=_KILLED_S)
            talking.cancel()
    if process.returncode:
        text = errors.decode(errors="replace").strip()
        raise DriverError(f"{words[0]} {words[1]} failed: {text[-_ERROR_CHARS:]}")
    return output


async def _watch(
    talking: "asyncio.Future[tuple[bytes, bytes]]", pid: int, idle_s: float | None
) -> None:
    """Wait until a process has ended, or has used no CPU time for `idle_s` seconds."""
    used: int | None = None
    while not talking.done():
        await asyncio.wait({talking}, timeout=idle_s)
        now = _ticks_of(pid)
        if now == used:
            return
        used = now


def _ticks_of(pid: int) -> int:
    """Return the CPU time that a process has used, in clock ticks; 0 if it does not exist."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return 0
    fields = text.rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
