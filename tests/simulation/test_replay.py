"""A seed is a run: the same one again, in any process."""

import os
import subprocess
import sys

from tests.simulation import test_contention, test_crashes, test_lifecycle, test_lost_answers
from tests.simulation.run import run_scenario

_SEED = 3
_SCENARIOS = (test_contention, test_crashes, test_lifecycle, test_lost_answers)
_PRINT = "from tests.simulation.test_replay import digests; print(*digests())"


def digests() -> list[str]:
    """Run one seed of each scenario and return hashes of what happened."""
    return [run_scenario(one.scenario_of(_SEED), _SEED).books.digest for one in _SCENARIOS]


def test_a_seed_replays_in_another_process() -> None:
    """The ledger's history is the same, byte for byte, although sets have another order there."""
    there = subprocess.run(
        [sys.executable, "-c", _PRINT],
        env={**os.environ, "PYTHONHASHSEED": "12345"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert there.stdout.split() == digests()


def test_another_seed_is_another_run() -> None:
    """Seeds make a difference."""
    found = {run_scenario(test_contention.scenario_of(n), n).books.digest for n in range(3)}
    assert len(found) == 3
