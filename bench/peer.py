"""The peer: Nova's scheduler, run by its own interpreter."""

import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, Self, TypeVar

import msgspec

from bench.cases import PeerCases
from bench.errors import BenchError
from bench.timing import Sample

T = TypeVar("T")

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / ".venv-nova" / "bin" / "python"
SCRIPT = ROOT / "bench" / "peers" / "nova_peer.py"
TURNS_SCRIPT = SCRIPT.with_name("nova_turns.py")
MISSING = (
    "There is no .venv-nova, so Nova's column stays empty. `make bench` installs it, or see "
    "bench/peers/README.md."
)


class PeerError(BenchError):
    """The peer's script failed; its messages are on standard error."""


@dataclass(frozen=True, slots=True)
class PeerWeigher:
    """One of Nova's weighers and its multiplier."""

    name: str
    multiplier: float


@dataclass(frozen=True, slots=True)
class PeerBatch:
    """The times of one request for many instances, in seconds.

    `estimated` says that they are extrapolated from fewer instances. `hosts` has the host of each
    instance that was actually placed.
    """

    instances: int
    cpu_s: float
    wall_s_min: float
    estimated: bool
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PeerHost:
    """A host and its weight."""

    host: str
    weight: float


@dataclass(frozen=True, slots=True)
class PeerSize:
    """The peer's results for one fleet size; `order` has the best hosts, best first."""

    hosts: int
    batch: PeerBatch
    order: tuple[PeerHost, ...]


@dataclass(frozen=True, slots=True)
class PeerReport:
    """The part of the peer's output that is used here."""

    version: str
    filters: tuple[str, ...]
    weighers: tuple[PeerWeigher, ...]
    results: tuple[PeerSize, ...]


@dataclass(frozen=True, slots=True)
class _Ready:
    """The peer's first line, after it has built its fleet."""

    passing: int


class TimedPeer:
    """The peer's process, which times one call at a time; a context manager.

    Attributes:
        passing: number of hosts that pass its filters.
    """

    def __init__(self, what: Literal["sort", "numa"], hosts: int) -> None:
        """Start the process, and wait until it is ready.

        Args:
            what: `sort` for `_get_sorted_hosts` on the plain fleet, `numa` for the NUMA filter.
            hosts: size of the fleet.

        Raises:
            PeerError: the peer's script failed.
        """
        command = [str(PYTHON), str(TURNS_SCRIPT), what, "--hosts", str(hosts)]
        self._process = subprocess.Popen(
            # Without a buffer, closing the pipe of an ended process raises no error.
            command,
            bufsize=0,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.passing = self._read(_Ready).passing

    def __enter__(self) -> Self:
        """Return the peer."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the pipes and wait for the process."""
        self._process.__exit__(kind, error, trace)

    def call(self) -> Sample:
        """Return the time of one call, by the peer's own clocks.

        Raises:
            PeerError: the peer's script failed.
        """
        with suppress(BrokenPipeError):  # the process has ended, which `_read` reports
            _open(self._process.stdin).write(b"\n")
        return self._read(Sample)

    def _read(self, kind: type[T]) -> T:
        line = _open(self._process.stdout).readline()
        if not line:
            self._process.__exit__(None, None, None)
            raise _failed(TURNS_SCRIPT, self._process.returncode)
        return msgspec.json.decode(line, type=kind)


def run_peer(hosts: tuple[int, ...], instances: int, cases: PeerCases) -> PeerReport | None:
    """Return the peer's results for the sizes up to `hosts_max`; None if there are none.

    Raises:
        PeerError: the peer's script failed.
    """
    sizes = [str(count) for count in hosts if count <= cases.hosts_max]
    if not sizes:
        return None
    command = [str(PYTHON), str(SCRIPT), "--json", "--hosts", *sizes]
    command += ["--instances", str(instances), "--repeat", "1"]
    if cases.batch_estimate:
        command.append("--batch-estimate")
    return msgspec.json.decode(_run(command), type=PeerReport)


def _run(command: Sequence[str]) -> bytes:
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise _failed(Path(command[1]), done.returncode)
    return done.stdout


def _failed(script: Path, code: int) -> PeerError:
    return PeerError(f"{script.name} ended with exit code {code}")


def _open(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe
