"""The peer: Nova's real scheduler, run by its own interpreter in the same run."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.cases import PeerCases
from bench.errors import BenchError

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / ".venv-nova" / "bin" / "python"
SCRIPT = ROOT / "bench" / "peers" / "nova_peer.py"
PINNED_SCRIPT = SCRIPT.with_name("nova_pinned.py")
MISSING = (
    "There is no .venv-nova, so Nova's column stays empty. `make bench` installs it, or see "
    "bench/peers/README.md."
)


class PeerError(BenchError):
    """The peer's script failed; what it said has gone to standard error."""


@dataclass(frozen=True, slots=True)
class PeerWeigher:
    """One of Nova's weighers and how much it weighs."""

    name: str
    multiplier: float


@dataclass(frozen=True, slots=True)
class PeerTimes:
    """CPU time (median) and wall time (minimum) of a call, in milliseconds."""

    cpu_ms: float
    wall_ms_min: float


@dataclass(frozen=True, slots=True)
class PeerBatch:
    """One request for many instances, in seconds; `estimated` from fewer instances.

    `hosts` has the host of each instance that was really placed.
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
    """What the peer says about one fleet size; `order` are the best hosts, best first."""

    hosts: int
    sorted_hosts: PeerTimes
    batch: PeerBatch
    order: tuple[PeerHost, ...]


@dataclass(frozen=True, slots=True)
class PeerReport:
    """What the peer's script prints, as far as it is used here."""

    version: str
    filters: tuple[str, ...]
    weighers: tuple[PeerWeigher, ...]
    results: tuple[PeerSize, ...]


@dataclass(frozen=True, slots=True)
class PinnedPeer:
    """What the peer's filter of NUMA cells takes, and how many hosts it lets pass."""

    hosts: int
    passing: int
    filter: PeerTimes


def run_peer(hosts: tuple[int, ...], instances: int, cases: PeerCases) -> PeerReport | None:
    """Measure the peer at the sizes it can do; None when it is not installed.

    Raises:
        PeerError: its script failed.
    """
    sizes = [str(count) for count in hosts if count <= cases.hosts_max]
    if not PYTHON.exists() or not sizes:
        return None
    command = [str(PYTHON), str(SCRIPT), "--json", "--hosts", *sizes]
    command += ["--instances", str(instances), "--repeat", str(cases.repeat)]
    if cases.batch_estimate:
        command.append("--batch-estimate")
    return msgspec.json.decode(_run(command), type=PeerReport)


def run_pinned_peer(hosts: int, repeat: int) -> PinnedPeer | None:
    """Measure the peer's filter of NUMA cells; None when the peer is not installed.

    Raises:
        PeerError: its script failed.
    """
    if not PYTHON.exists():
        return None
    command = [str(PYTHON), str(PINNED_SCRIPT), "--hosts", str(hosts), "--repeat", str(repeat)]
    return msgspec.json.decode(_run(command), type=PinnedPeer)


def _run(command: Sequence[str]) -> bytes:
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise PeerError(f"{Path(command[1]).name} ended with exit code {done.returncode}")
    return done.stdout
