"""Tests for whether the scores of a policy are comparable between zones."""

from pathlib import Path

import pytest

from berth.config.policy_file import load_policy, parse_policy
from berth.config.ready_policies import READY
from berth.scheduling.rules.rule import Normalisation
from berth.services.zoning.offers.host_offers import incomparable_reason

_HEAD = 'name = "p"\nnormalisation = "nova"\n'
_FILTERS = '[[filters]]\nname = "ResourcesFilter"\n'


@pytest.mark.parametrize("name", sorted(READY))
def test_ready_policies_say_by_their_normalisation(name: str) -> None:
    """Ready policies are comparable if they normalise to shares."""
    policy = load_policy(Path(name))
    is_share = policy.normalisation is Normalisation.SHARE
    assert (incomparable_reason(policy) is None) == is_share


def test_costs_compare_when_they_are_not_divided() -> None:
    """Costs are comparable in a policy that normalises to shares."""
    costs = '[[costs]]\nname = "noop"\n'
    head = _HEAD.replace('"nova"', '"share"')
    policy = parse_policy(f'{head}driver = "least_cost"\n{_FILTERS}{costs}', "p.toml")
    assert incomparable_reason(policy) is None


@pytest.mark.parametrize(
    ("driver", "reason"),
    [
        ("chance", "chance gives all hosts the same score"),
        ("least_cost", "least_cost divides"),
        ("simple", None),
    ],
)
def test_drivers_that_do_not_weigh(driver: str, reason: str | None) -> None:
    """Drivers without weighers are comparable or not by themselves, even behind `multi`."""
    costs = '[[costs]]\nname = "noop"\n' if driver == "least_cost" else ""
    alone = parse_policy(f'{_HEAD}driver = "{driver}"\n{_FILTERS}{costs}', "p.toml")
    multi = f'[driver_options]\ndefault = "chance"\nroutes = {{ create = "{driver}" }}\n'
    routed = parse_policy(f'{_HEAD}driver = "multi"\n{multi}{_FILTERS}{costs}', "p.toml")
    for policy in (alone, routed):
        why = incomparable_reason(policy)
        assert why is None if reason is None else why is not None and why.startswith(reason)
