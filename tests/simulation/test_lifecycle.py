"""The lifecycle of instances: owners run any operations on them, and administrators move them."""

from random import Random

from tests.simulation.faults import Weather
from tests.simulation.run import run_scenario
from tests.simulation.world import Scenario

SEEDS = 24
"""Fewer seeds than for other scenarios, because each run does more."""


def scenario_of(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    rng = Random(f"lifecycle/{seed}")
    return Scenario(
        weather=Weather(
            delay_s=rng.choice((0.01, 0.3)),
            unavailable=rng.choice((0.0, 0.03)),
            lost=rng.choice((0.0, 0.05)),
            build_fails=0.1,
            verb_fails=rng.choice((0.0, 0.1)),
            machine_breaks=rng.choice((0.0, 0.1)),
        ),
        schedulers=rng.randint(1, 2),
        bare_apis=rng.randint(0, 1),
        agents=rng.randint(1, 3),
        clients=0,
        owners=rng.randint(2, 4),
        deeds=rng.choice((12, 24, 40)),
        moves=True,
        offloads=rng.random() < 0.7,
        resizes_in_place=rng.random() < 0.3,
        operates=rng.random() < 0.3,
        feed_versions=rng.choice((20, 100_000)),
        crash_s=rng.choice((None, 0.7, 1.5, 6.0)),
    )


def test_laws_hold_whatever_is_done_with_instances(seed: int) -> None:
    """Every instance has one guest, its allocations are where it is, and every action ends."""
    run_scenario(scenario_of(seed), seed)
