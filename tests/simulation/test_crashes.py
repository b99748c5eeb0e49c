"""Processes that die at any moment and restart, on a ledger that sometimes fails."""

from random import Random

from tests.simulation.faults import Weather
from tests.simulation.run import run_scenario
from tests.simulation.world import Scenario


def scenario_of(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    rng = Random(f"crashes/{seed}")
    return Scenario(
        weather=Weather(
            delay_s=rng.choice((0.01, 0.3)),
            unavailable=rng.choice((0.0, 0.03)),
            lost=rng.choice((0.0, 0.05)),
            build_fails=0.2,
            machine_breaks=0.05,
        ),
        schedulers=rng.randint(1, 3),
        agents=rng.randint(1, 3),
        feed_versions=rng.choice((20, 100_000)),
        crash_s=rng.choice((1.0, 4.0)),
    )


def test_laws_hold_when_processes_die(seed: int) -> None:
    """Every law holds while processes die, and their successors finish what they had begun."""
    run_scenario(scenario_of(seed), seed)
