"""Processes that outlive the agent."""

import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from berth.adapters.virt import processes
from berth.adapters.virt.processes import HostProcess
from berth.domain.errors import DriverError

MARK = f"0.{os.getpid():012d}"
"""A sleeping time that no other process uses."""


def marked(words: Sequence[str]) -> str | None:
    """Return the mark of a command line."""
    return MARK if MARK in words else None


def children() -> set[int]:
    """Return the pids of this process's children, including zombies."""
    folders = Path("/proc/self/task").glob("*/children")
    return {int(pid) for one in folders for pid in one.read_text().split()}


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[HostProcess]:
    """Yield a process that sleeps for ten minutes."""
    argv = ["sleep", "600", MARK]
    process = processes.start(argv, fds=[], output=tmp_path / "output")
    yield process
    process.kill()


async def test_a_process_is_found_until_it_is_killed(sleeper: HostProcess) -> None:
    """A process is found by its command line until it is killed, and no zombie remains."""
    assert sleeper.is_alive()
    assert processes.find(marked) == {MARK: sleeper}
    assert not await sleeper.wait(0.05)
    sleeper.kill()
    assert await sleeper.wait(10)
    assert processes.find(marked) == {}
    assert sleeper.pid not in children()
    sleeper.kill()


def test_another_process_with_the_same_number_is_left_alone(sleeper: HostProcess) -> None:
    """A process with the same pid but another start time is not killed."""
    before = HostProcess(sleeper.pid, sleeper.started_ticks - 1)
    assert not before.is_alive()
    before.kill()
    assert sleeper.is_alive()


def test_a_process_has_a_session_of_its_own(sleeper: HostProcess) -> None:
    """A process has its own session, so a signal to the agent's terminal does not end it."""
    assert os.getsid(sleeper.pid) == sleeper.pid != os.getsid(0)


def test_descriptors_get_numbers_that_overwrite_none() -> None:
    """The numbers of inherited descriptors do not overlap with those in use."""
    assert processes.inherited_fds([]) == []
    assert processes.inherited_fds([9, 10]) == [3, 4]
    assert processes.inherited_fds([3, 5, 4]) == [6, 7, 8]


async def test_a_process_inherits_what_it_is_given(tmp_path: Path) -> None:
    """A process can write to an inherited descriptor, and its output goes to its own file."""
    read, write = os.pipe()
    (number,) = processes.inherited_fds([write])
    argv = ["sh", "-c", f"echo given >&{number}; echo output; echo error >&2"]
    process = processes.start(argv, fds=[write], output=tmp_path / "output")
    os.close(write)
    assert await asyncio.to_thread(os.read, read, 100) == b"given\n"
    os.close(read)
    assert await process.wait(10)
    assert (tmp_path / "output").read_text() == "output\nerror\n"


def test_a_program_that_is_not_there_cannot_be_started(tmp_path: Path) -> None:
    """Starting a missing program raises an error immediately."""
    with pytest.raises(FileNotFoundError):
        processes.start(["no-such-program"], fds=[], output=tmp_path / "output")


async def test_a_program_is_run_to_its_end() -> None:
    """`run` returns the output, and its error has the program's error output."""
    assert await processes.run("printf", "%s", "text") == b"text"
    with pytest.raises(DriverError, match="sh -c failed: no luck"):
        await processes.run("sh", "-c", "echo no luck >&2; exit 3")
    with pytest.raises(DriverError, match="no-such-program cannot be started"):
        await processes.run("no-such-program")


async def test_a_program_ends_when_nobody_waits_for_it() -> None:
    """Cancelling `run` ends the program."""
    run = asyncio.ensure_future(processes.run("sleep", "600", MARK))
    while not processes.find(marked):  # noqa: ASYNC110 - its start sets no event
        await asyncio.sleep(0.01)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    deadline_s = time.monotonic() + 10
    while processes.find(marked):
        assert time.monotonic() < deadline_s
        await asyncio.sleep(0.01)


async def test_a_program_that_does_nothing_is_ended() -> None:
    """An idle program is ended after `idle_s`; a busy one is not, even without output."""
    begun_s = time.monotonic()
    with pytest.raises(DriverError, match="made no progress"):
        await processes.run("sleep", "600", MARK, idle_s=0.5)
    assert time.monotonic() - begun_s < 60
    assert processes.find(marked) == {}
    # On a busy machine a program may get no processor for half a second.
    busy = "end=$(($(date +%s) + 3)); while [ $(date +%s) -lt $end ]; do :; done"
    assert await processes.run("sh", "-c", busy, idle_s=1.5) == b""
