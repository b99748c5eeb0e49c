"""Outages of ledger and broker of up to 90 seconds, for all processes or for one."""

from random import Random

from tests.simulation.faults import Weather
from tests.simulation.run import run_scenario
from tests.simulation.world import Scenario

SEEDS = 20
"""Fewer seeds than for other scenarios, because more time passes in each run."""


def scenario_of(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    rng = Random(f"outages/{seed}")
    moves = rng.random() < 0.5
    return Scenario(
        weather=Weather(
            delay_s=rng.choice((0.01, 0.3)),
            lost=rng.choice((0.0, 0.05)),
            build_fails=rng.choice((0.0, 0.1)),
            verb_fails=rng.choice((0.0, 0.05)),
            machine_breaks=rng.choice((0.0, 0.05)),
        ),
        schedulers=rng.randint(1, 2),
        bare_apis=rng.randint(1, 2),
        agents=rng.randint(1, 3),
        clients=0 if moves else 3,
        owners=rng.randint(2, 3) if moves else 0,
        deeds=24,
        moves=moves,
        operates=rng.random() < 0.3,
        trouble_s=rng.choice((60.0, 240.0)),
        feed_versions=rng.choice((20, 100_000)),
        crash_s=rng.choice((None, None, 10.0)),
        outage_s=rng.choice((5.0, 20.0)),
        calls=rng.random() < 0.7,
    )


def test_laws_hold_while_ledger_and_broker_come_and_go(seed: int) -> None:
    """Accepted requests take effect once, and work resumes by itself after outages."""
    run_scenario(scenario_of(seed), seed)
