"""Several schedulers with outdated replicas on one ledger, and a fleet that is too small."""

from random import Random

from tests.simulation.faults import Weather
from tests.simulation.run import run_scenario
from tests.simulation.world import Scenario


def scenario_of(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    rng = Random(f"contention/{seed}")
    return Scenario(
        weather=Weather(delay_s=rng.choice((0.005, 0.05, 0.5)), build_fails=0.1),
        hosts=rng.randint(2, 5),
        vcpus=rng.choice((8, 12)),
        schedulers=rng.randint(2, 3),
        bare_apis=rng.randint(0, 1),
        clients=4,
        trouble_s=20.0,
        subset_size=rng.choice((1, 3)),
        feed_versions=rng.choice((20, 100_000)),
    )


def test_laws_hold_when_schedulers_compete(seed: int) -> None:
    """Competing schedulers never overcommit, every order ends, and nothing is left over."""
    run_scenario(scenario_of(seed), seed)
