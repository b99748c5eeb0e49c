"""CPU time and memory of processes, read from /proc."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

_PROC = Path("/proc")
_MIB = 1 << 20


@dataclass(slots=True)
class Meter:
    """CPU seconds of some processes, their children, and PostgreSQL's processes for a database.

    The time of an ended process still counts, as it was when last read.
    """

    pids: tuple[int, ...]
    database: str
    _taken_s: dict[int, float] = field(default_factory=dict[int, float])

    def cpu_s(self) -> float:
        """Return the total CPU seconds so far."""
        for pid in {*self.pids, *_children(self.pids), *_serving(self.database)}:
            taken_s = cpu_s(pid)
            if taken_s is not None:
                self._taken_s[pid] = taken_s
        return sum(self._taken_s.values())


def cpu_s(pid: int) -> float | None:
    """Return the CPU seconds of all threads of a process; None if it has ended.

    The resolution is a nanosecond if the kernel counts them, otherwise a clock tick.
    """
    folder = _PROC / str(pid)
    try:
        threads = [one.read_text("utf-8") for one in folder.glob("task/*/schedstat")]
        if threads:
            return sum(int(text.split()[0]) for text in threads) / 1e9
        user, system = _after_name(folder)[11:13]
    except OSError:
        return None
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process in MiB."""
    pages = int((_PROC / str(pid) / "statm").read_text("utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / _MIB


def _children(pids: Iterable[int]) -> Iterator[int]:
    parents = set(pids)
    for pid in _all():
        try:
            if int(_after_name(_PROC / str(pid))[1]) in parents:
                yield pid
        except OSError:
            continue


def _serving(database: str) -> Iterator[int]:
    for pid in _all():
        try:
            title = (_PROC / str(pid) / "cmdline").read_bytes()
        except OSError:
            continue
        if title.startswith(b"postgres:") and f" {database} ".encode() in title:
            yield pid


def _all() -> Iterator[int]:
    return (int(one.name) for one in _PROC.iterdir() if one.name.isdecimal())


def _after_name(folder: Path) -> list[str]:
    """Return the fields of `stat` after the name of the program, the state first."""
    return (folder / "stat").read_text("utf-8").rpartition(")")[2].split()
