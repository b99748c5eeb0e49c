"""The peer's process, asked for one timed call at a time."""

import sys
from pathlib import Path

import pytest

from bench import peer as bench_peer
from bench.cases import DecisionCases, PeerCases, PinnedCases
from bench.decisions import measure_size
from bench.peer import MISSING, PYTHON, PeerError, TimedPeer
from bench.pinned import PinnedTurn, measure
from berth.config.policy_file import load_policy

ANSWERING = """
import sys
print('{"passing": 12}', flush=True)
for asked, line in enumerate(sys.stdin):
    print('{"cpu_us": %d, "wall_us": %d}' % (asked + 1, asked + 2), flush=True)
"""
SILENT = "raise SystemExit(3)"

CASES = DecisionCases(
    hosts=(20,),
    loaded_once_from=1,
    fresh_samples=1,
    cold_samples=1,
    warm_samples=1,
    batch_samples=1,
    batch_instances=2,
)


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a script that answers in the peer's place, with calls of 1, 2, 3 ... µs."""
    script = tmp_path / "peer.py"
    script.write_text(ANSWERING, "utf-8")
    monkeypatch.setattr(bench_peer, "PYTHON", Path(sys.executable))
    monkeypatch.setattr(bench_peer, "TURNS_SCRIPT", script)
    return script


def test_each_call_has_an_answer(script: Path) -> None:
    """The peer's process answers each call, lives on between calls, and ends with the context."""
    with TimedPeer("sort", 20) as peer:
        assert peer.passing == 12
        assert [peer.call().cpu_us for _ in range(3)] == [1, 2, 3]
        assert peer._process.poll() is None
    assert peer._process.returncode == 0


@pytest.mark.parametrize("text", [SILENT, ANSWERING.replace("for ", SILENT + "\nfor ")])
def test_a_peer_that_ends_is_an_error(script: Path, text: str) -> None:
    """The error for a peer that ends names its script and exit code."""
    script.write_text(text, "utf-8")
    with pytest.raises(PeerError, match=r"peer\.py ended with exit code 3"):
        TimedPeer("sort", 20).call()


def test_a_peer_that_has_ended_before_it_is_asked_is_an_error(script: Path) -> None:
    """A call to a peer that has ended raises an error with its exit code, not a broken pipe."""
    script.write_text(ANSWERING.replace("for ", SILENT + "\nfor "), "utf-8")
    peer = TimedPeer("sort", 20)
    assert peer._process.wait(30) == 3
    with pytest.raises(PeerError, match=r"peer\.py ended with exit code 3"):
        peer.call()


def test_decisions_are_compared_with_their_neighbours(script: Path) -> None:
    """`measure_size` compares as many turns with the peer as the cases say, and gives a ratio."""
    cases = PeerCases(hosts_max=20, turns=3, decisions=2, batch_estimate=True)
    times = measure_size(20, load_policy(Path("nova")), CASES, cases)
    assert times.beside is not None
    assert (times.beside.peer.cpu_us, times.beside.peer.samples) == (2, 3)
    assert times.beside.warm.samples == 4
    assert 0 <= times.beside.ratio.low <= times.beside.ratio.median <= times.beside.ratio.high


def test_pinned_guests_are_compared_in_each_way(script: Path) -> None:
    """The comparison of pinned guests has a ratio for each field of a turn."""
    cases = PinnedCases(hosts=24, turns=2, keep_samples=1, warm_samples=1)
    with TimedPeer("numa", 24) as peer:
        beside = measure(cases, peer).beside
    assert beside is not None
    assert (beside.passing, beside.filter.samples) == (12, 2)
    assert tuple(beside.ratios) == PinnedTurn._fields


@pytest.mark.skipif(not PYTHON.exists(), reason=MISSING)
def test_nova_lets_pass_what_berth_does() -> None:
    """The real peer passes all hosts of the plain fleet, and as many pinned ones as Berth."""
    with TimedPeer("sort", 24) as peer:
        assert peer.passing == 24
        assert peer.call().cpu_us > 0
    cases = PinnedCases(hosts=48, turns=1, keep_samples=1, warm_samples=1)
    with TimedPeer("numa", cases.hosts) as peer:
        times = measure(cases, peer)
    assert times.beside is not None
    assert times.passing == times.beside.passing == 48 - 8
