"""A seed determines a run: it is the same in every process."""

import os
import subprocess
import sys

from tests.simulation import test_contention, test_crashes, test_lifecycle, test_lost_answers
from tests.simulation.run import run_scenario

_SEED = 3
_SCENARIOS = (test_contention, test_crashes, test_lifecycle, test_lost_answers)
_PRINT = "from tests.simulation.test_replay import digests; print(*digests())"


def digests() -> list[str]:
    """Run one seed of four scenarios and return the hashes of their changes."""
    return [run_scenario(one.scenario_of(_SEED), _SEED).books.digest for one in _SCENARIOS]


def test_a_seed_replays_in_another_process() -> None:
    """A run in another process has the same hash, although sets are ordered differently there."""
    there = subprocess.run(
        [sys.executable, "-c", _PRINT],
        env={**os.environ, "PYTHONHASHSEED": "12345"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert there.stdout.split() == digests()


def test_another_seed_is_another_run() -> None:
    """Three seeds of a scenario give three different runs."""
    found = {run_scenario(test_contention.scenario_of(n), n).books.digest for n in range(3)}
    assert len(found) == 3
