"""Alternating measurements of two sides, and the ratio of neighbours."""

import os
import sys

import pytest

from bench.timing import Sample, middle
from bench.turns import Ratio, one_processor, ratio_of, take_turns


def sample(cpu_us: float) -> Sample:
    """Return a sample whose wall time is ten times its CPU time."""
    return Sample(cpu_us, 10 * cpu_us)


def test_ours_comes_before_and_after_each_call_of_the_peer() -> None:
    """Each call of the peer has a block of ours before and after it."""
    made: list[str] = []

    def ours() -> int:
        made.append("ours")
        return len(made)

    def peer() -> Sample:
        made.append("peer")
        return sample(len(made))

    blocks, calls = take_turns(ours, peer, 3)
    assert made == ["ours", "peer"] * 3 + ["ours"]
    assert blocks == [1, 3, 5, 7]
    assert [call.cpu_us for call in calls] == [2, 4, 6]


def test_without_a_peer_ours_is_measured_as_often() -> None:
    """Without a peer, our side is measured as often and the peer has no calls."""
    assert take_turns(lambda: "ours", None, 3) == (["ours"] * 4, [])


def test_a_phase_of_the_machine_moves_no_ratio() -> None:
    """A slow phase of the machine affects both sides of a turn and not their ratio."""
    pace = [1, 1, 1, 2, 2, 2, 2, 2, 1, 1, 1]
    blocks, calls = [sample(50 * one) for one in pace], [sample(1_000 * one) for one in pace[1:]]
    assert ratio_of(blocks, calls) == Ratio(20.0, 20.0, 20.0)


def test_a_ratio_tells_how_far_the_turns_lie_apart() -> None:
    """Each call is compared with the mean of its neighbours; the ratio has median and quartiles."""
    blocks = [sample(1), sample(3), sample(1), sample(3), sample(1), sample(3)]
    calls = [sample(cpu_us) for cpu_us in (20, 90, 22, 24, 26)]
    assert ratio_of(blocks, calls) == Ratio(median=12.0, low=11.0, high=13.0)


def test_one_turn_is_enough() -> None:
    """The quartiles of a single turn equal its median."""
    assert ratio_of([sample(2), sample(2)], [sample(20)]) == Ratio(10.0, 10.0, 10.0)


def test_a_block_has_the_middle_time_of_its_decisions() -> None:
    """A block's CPU and wall times are separate medians."""
    assert middle([Sample(1, 9), Sample(2, 7), Sample(90, 8)]) == Sample(2, 8)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process cannot be told where")
def test_neighbours_run_on_one_processor() -> None:
    """The process is bound to one CPU while it measures, and released afterwards."""
    before = os.sched_getaffinity(0)
    with one_processor():
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == before
