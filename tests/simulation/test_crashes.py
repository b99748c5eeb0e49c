"""Processes that die at any moment and start anew, on a ledger that fails now and then."""

from random import Random

from tests.simulation.faults import Weather
from tests.simulation.run import run_scenario
from tests.simulation.world import Scenario


def scenario_of(seed: int) -> Scenario:
    """Draw a scenario."""
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
    """Whoever dies leaves nothing half done that its successor does not finish."""
    run_scenario(scenario_of(seed), seed)
