"""Tests for the cost functions that the driver `least_cost` adds up."""

import math
from dataclasses import replace

import pytest

from berth.config.policy_file import parse_policy
from berth.domain.errors import PolicyError
from berth.scheduling.costs import compute_fill_first, noop
from berth.scheduling.drivers import least_cost
from berth.scheduling.rules.rule import Normalisation
from berth.testing.fleets import asking, policy_of
from tests.unit.scheduling.drivers.test_drivers import hosts_of, plan


def test_the_fullest_host_costs_least() -> None:
    """The host with the least free memory has the lowest cost of compute_fill_first."""
    policy = policy_of(runners_up=3)
    policy = replace(policy, costs=(compute_fill_first.build(),))
    (first,) = plan(least_cost.build(), asking(), policy).placements
    assert [one.host for one in (first.chosen, *first.runners_up)] == ["b", "c", "a"]
    (part,) = first.chosen.parts
    assert (part.weigher, part.raw, part.multiplier) == ("compute_fill_first", 2048.0, -1.0)
    assert part.normalised == pytest.approx(2048 / 7168)


def test_costs_are_weighted_and_added() -> None:
    """Costs are divided by the greatest one, weighted and added."""
    policy = replace(
        policy_of(runners_up=3),
        costs=(noop.build(weight=2.0), compute_fill_first.build(weight=-0.5)),
    )
    (first,) = plan(least_cost.build(), asking(), policy).placements
    assert [one.host for one in (first.chosen, *first.runners_up)] == ["a", "c", "b"]
    assert first.chosen.score == pytest.approx(-2.0 + 0.5)


def test_costs_as_shares_are_not_divided() -> None:
    """With shares, costs are not divided by the greatest one."""
    costs = (noop.build(weight=2.0), compute_fill_first.build(weight=-0.5))
    policy = replace(policy_of(), costs=costs, normalisation=Normalisation.SHARE)
    (first,) = plan(least_cost.build(), asking(), policy).placements
    _, memory = first.chosen.parts
    assert memory.raw == memory.normalised == 7168.0
    assert first.chosen.score == pytest.approx(-2.0 + 0.5 * 7168.0)


def test_earlier_instances_of_the_request_cost() -> None:
    """Earlier instances of the request change the costs, so hosts are filled one after another."""
    policy = replace(policy_of(), costs=(compute_fill_first.build(),))
    assert hosts_of(plan(least_cost.build(), asking(count=4), policy)) == ["b", "b", "c", "c"]


def test_least_cost_and_costs_belong_together() -> None:
    """A policy with `least_cost` needs cost functions, and the reverse."""
    filters = '[[filters]]\nname = "ResourcesFilter"\n'
    text = f'name = "x"\ndriver = "least_cost"\n{filters}'
    with pytest.raises(PolicyError, match="require that driver"):
        parse_policy(text, "p")
    policy = parse_policy(f'{text}[[costs]]\nname = "noop"\nweight = 3\n', "p")
    assert [(cost.name, cost.weight) for cost in policy.costs] == [("noop", 3.0)]
    with pytest.raises(PolicyError, match="there is no cost function 'fill'"):
        parse_policy(f'{text}[[costs]]\nname = "fill"\n', "p")
    with pytest.raises(PolicyError, match="require that driver"):
        parse_policy(f'name = "x"\n{filters}[[costs]]\nname = "noop"\n', "p")


@pytest.mark.parametrize("built", [replace(noop.build(), weight=math.inf), "no cost function"])
def test_a_plugin_builds_a_cost_of_finite_weight(
    monkeypatch: pytest.MonkeyPatch, built: object
) -> None:
    """A plugin that builds anything else is refused, and the error names the place in the file."""

    def build(*, weight: float = 1.0) -> object:
        del weight
        return built

    monkeypatch.setattr(noop, "build", build)
    text = 'name = "x"\ndriver = "least_cost"\n[[filters]]\nname = "ResourcesFilter"\n'
    with pytest.raises(PolicyError) as refused:
        parse_policy(f'{text}[[costs]]\nname = "noop"\n', "p")
    assert refused.value.where == "p: costs[0]"
