"""Durable placements through the library on PostgreSQL, from one and from several processes.

Each process decides, claims and records as a scheduler does, and all of them share one ledger,
without a broker. The same load on a SQLite ledger takes turns with them, so the ratios hardly
depend on the phases of the machine.
"""

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.cases import SharedLibraryCases
from bench.errors import BenchError
from bench.library import fill
from bench.peer import ROOT
from bench.placement.database import fresh_database
from bench.placement.processor import Meter

_SQLITE = 0
"""Stands for one process on SQLite among the numbers of processes."""
_STOP_S = 30.0


class ProcessError(BenchError):
    """A process could not place its instances."""


@dataclass(frozen=True, slots=True)
class SharedTimes:
    """Medians over the turns, for `processes` processes on one ledger of `hosts` hosts.

    `cpu_us` is the CPU time of a placement in these processes and the database's. `vs_sqlite` and
    `vs_one` are ratios of placements per second to those of one process in the same turn, on SQLite
    and on PostgreSQL. `ledger` is `sqlite` or `postgresql`.
    """

    ledger: str
    hosts: int
    processes: int
    placements_per_s: float
    cpu_us: float
    vs_sqlite: float
    vs_one: float
    turns: int


@dataclass(frozen=True, slots=True)
class _Turn:
    per_s: float
    cpu_us: float


def measure_shared_library(cases: SharedLibraryCases) -> Iterator[SharedTimes]:
    """Yield the times of each fleet size and number of processes.

    Raises:
        NoDatabaseError: there is no PostgreSQL server.
        ProcessError: a process could not place its instances.
    """
    for hosts in cases.hosts:
        yield from _measure(cases, hosts)


def _measure(cases: SharedLibraryCases, hosts: int) -> Iterator[SharedTimes]:
    numbers = (_SQLITE, *cases.processes)
    turns: dict[int, list[_Turn]] = {number: [] for number in numbers}
    with ExitStack() as stack:
        database = stack.enter_context(fresh_database())
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="berth-bench-"))
        file = f"sqlite:///{Path(folder) / 'ledger.sqlite'}"
        for url in (file, database.url):
            asyncio.run(fill(url, hosts))
        for turn in range(cases.turns):
            for number in numbers:
                url = file if number == _SQLITE else database.url
                name = f"{number}-{turn}"
                turns[number].append(_one_turn(cases, url, database.name, name, max(1, number)))
    for number in numbers:
        yield SharedTimes(
            ledger="sqlite" if number == _SQLITE else "postgresql",
            hosts=hosts,
            processes=max(1, number),
            placements_per_s=round(statistics.median(one.per_s for one in turns[number]), 1),
            cpu_us=round(statistics.median(one.cpu_us for one in turns[number]), 1),
            vs_sqlite=_ratio(turns[number], turns[_SQLITE]),
            vs_one=_ratio(turns[number], turns[_SQLITE if number == _SQLITE else 1]),
            turns=cases.turns,
        )


def _ratio(turns: Sequence[_Turn], to: Sequence[_Turn]) -> float:
    pairs = zip(turns, to, strict=True)
    return round(statistics.median(one.per_s / other.per_s for one, other in pairs), 3)


def _one_turn(
    cases: SharedLibraryCases, url: str, database: str, name: str, processes: int
) -> _Turn:
    """Place the instances of one turn, an equal share in each process."""
    count = cases.placements // processes
    with ExitStack() as stack:
        started = [
            stack.enter_context(_process(url, f"{name}-{index}", count, cases.in_flight))
            for index in range(processes)
        ]
        for one in started:
            _expect(one, "ready")
        meter = Meter(tuple(one.pid for one in started), database)
        cpu_s, wall_s = meter.cpu_s(), time.perf_counter()
        for one in started:
            _tell(one)
        for one in started:
            _expect(one, "done")
        wall_s = time.perf_counter() - wall_s
        cpu_s = meter.cpu_s() - cpu_s
    return _Turn(count * processes / wall_s, cpu_s * 1e6 / (count * processes))


@contextmanager
def _process(url: str, name: str, count: int, in_flight: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "bench.library_process", url, name, str(count), str(in_flight)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        yield process
    finally:
        try:
            process.communicate(timeout=_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def _expect(process: subprocess.Popen[str], line: str) -> None:
    """Wait until a process prints a line.

    Raises:
        ProcessError: it ended, or printed something else.
    """
    assert process.stdout is not None
    found = process.stdout.readline().strip()
    if found != line:
        raise ProcessError(f"`{line}` was expected of a placing process, not {found!r}")
