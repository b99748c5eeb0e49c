"""Processes that outlive the agent: starting, finding, and ending them.

A pid says little: the process may be a zombie that nobody has waited for, or another one that
has the number by now. So a process is known by its pid and the time of its start, and it is
found by what stands in its command line.
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
    """A process, by pid and start in clock ticks since the machine's."""

    pid: int
    started_ticks: int

    def is_alive(self) -> bool:
        """Tell whether it runs, or could; a zombie of this process is done away with."""
        state = _state_of(self.pid)
        if state is None or state[1] != self.started_ticks:
            return False
        if state[0] not in "ZX":
            return True
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)
        return False

    def kill(self) -> None:
        """End it at once, if it is there."""
        with contextlib.suppress(ProcessLookupError):
            # The descriptor belongs to one process, whoever gets the number after it.
            fd = os.pidfd_open(self.pid)
            try:
                if self.is_alive():
                    signal.pidfd_send_signal(fd, signal.SIGKILL)
            finally:
                os.close(fd)

    async def wait(self, timeout_s: float) -> bool:
        """Wait for its end and tell whether it came in time."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + timeout_s
        while self.is_alive():
            if loop.time() >= until_s:
                return False
            await asyncio.sleep(_POLL_S)
        return True


def start(argv: Sequence[str], *, fds: Sequence[int], output: Path) -> HostProcess:
    """Start a process in a session of its own that the end of this one leaves alone.

    Args:
        argv: the program, looked up in PATH, and its arguments; `inherited_fds` are numbers of
            descriptors there.
        fds: what it inherits of this process's descriptors, as `inherited_fds` renumbers them.
        output: the file that gets what it writes to standard output and error.

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
    # Not subprocess.Popen, whose object complains when it is dropped before its process ends.
    pid = os.posix_spawnp(argv[0], list(argv), os.environ, file_actions=actions, setsid=True)
    state = _state_of(pid)
    return HostProcess(pid, state[1] if state is not None else 0)


def inherited_fds(fds: Sequence[int]) -> list[int]:
    """Return the numbers that descriptors get in a process that is started with them.

    They are none of the numbers here, so that no copy overwrites what is yet to be copied.
    """
    found: list[int] = []
    number = _FIRST_FREE_FD
    while len(found) < len(fds):
        if number not in fds:
            found.append(number)
        number += 1
    return found


def find(of_interest: Callable[[Sequence[str]], str | None]) -> dict[str, HostProcess]:
    """Return the live processes whose command lines are of interest, by what that returns."""
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


def _words_of(pid: int) -> list[str]:
    """Return a process's command line; none of one that is gone, or of the kernel's own."""
    for _ in range(_STARTING_LOOKS):
        try:
            text = (_PROC / str(pid) / "cmdline").read_bytes()
            # A process that has just been started has none for a moment. Links of the kernel's
            # own processes, and of zombies, lead nowhere.
            if text or not (_PROC / str(pid) / "exe").exists():
                return text.decode(errors="replace").split("\0") if text else []
        except OSError:
            return []
        time.sleep(_STARTING_S)
    return []


def _state_of(pid: int) -> tuple[str, int] | None:
    """Return the state's letter and the time of the start; None when there is no such process."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[19])


async def run(*words: str, idle_s: float | None = None) -> bytes:
    """Run a program to its end and return what it writes; it ends when nobody waits any more.

    Args:
        words: the program and its arguments.
        idle_s: when it has not used its processor for so long it is ended: nothing comes from
            whoever it waits for.

    Raises:
        DriverError: it is not installed, or it fails, or it was ended for doing nothing.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise DriverError(f"{words[0]} cannot be started: {error.strerror}") from error
    talking = asyncio.ensure_future(process.communicate())
    try:
        await _watch(talking, process.pid, idle_s)
        if not talking.done():
            raise DriverError(f"{words[0]} {words[1]} has done nothing for {idle_s} s")
        output, errors = await talking
    finally:
        if not talking.done():
            process.kill()
            # Not for ever: it may wait for a disk that does not answer.
            await asyncio.wait({talking}, timeout=_KILLED_S)
            talking.cancel()
    if process.returncode:
        text = errors.decode(errors="replace").strip()
        raise DriverError(f"{words[0]} {words[1]} failed: {text[-_ERROR_CHARS:]}")
    return output


async def _watch(
    talking: "asyncio.Future[tuple[bytes, bytes]]", pid: int, idle_s: float | None
) -> None:
    """Wait for the end of a process, or until it has done nothing for too long."""
    used: int | None = None
    while not talking.done():
        await asyncio.wait({talking}, timeout=idle_s)
        now = _ticks_of(pid)
        if now == used:
            return
        used = now


def _ticks_of(pid: int) -> int:
    """Return how much of the processors a process has used, in clock ticks."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return 0
    fields = text.rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
