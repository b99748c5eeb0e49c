"""A ledger and a broker that are away for up to a minute and a half, for all or for one process."""

from random import Random

from tests.simulation.faults import Weather
from tests.simulation.run import run_scenario
from tests.simulation.world import Scenario

SEEDS = 40
"""Fewer than of the others: more time passes in each."""


def scenario_of(seed: int) -> Scenario:
    """Draw a scenario."""
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
    """What was accepted happens once, and all goes on by itself."""
    run_scenario(scenario_of(seed), seed)
