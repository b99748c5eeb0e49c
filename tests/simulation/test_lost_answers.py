"""A ledger that is unreachable or whose answers are lost, and machines and code that fail."""

from random import Random

from tests.simulation.faults import Weather
from tests.simulation.run import run_scenario
from tests.simulation.world import Scenario


def scenario_of(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    rng = Random(f"lost answers/{seed}")
    return Scenario(
        weather=Weather(
            delay_s=rng.choice((0.01, 0.3)),
            unavailable=rng.choice((0.0, 0.02, 0.1)),
            lost=rng.choice((0.02, 0.1)),
            build_fails=0.2,
            machine_breaks=0.1,
            code_breaks=rng.choice((0.0, 0.02)),
        ),
        schedulers=rng.randint(1, 2),
        bare_apis=rng.randint(0, 1),
        feed_versions=rng.choice((20, 100_000)),
    )


def test_laws_hold_when_answers_are_lost(seed: int) -> None:
    """Repeated requests take effect once, and every accepted request takes effect."""
    run_scenario(scenario_of(seed), seed)
