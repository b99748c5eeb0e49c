"""Tests for the drivers, which choose among the hosts that the filters leave."""

from dataclasses import replace

import pytest

from berth.config.policy_file import parse_policy
from berth.domain.compute.flavor import Flavor
from berth.domain.compute.request import Operation, Request
from berth.domain.errors import PolicyError
from berth.domain.inventory.resources import MEMORY_MB, VCPU
from berth.scheduling.drivers import availability_zone, caching, simple
from berth.scheduling.evaluation.policy import Driver, Plan, Policy
from berth.tables.host.feed import table_of
from berth.testing.fleets import NOW_S, Box, asking, policy_of, snapshot_of, zone

FLEET = snapshot_of(
    [
        Box("a", used={VCPU: 6, MEMORY_MB: 1024}),
        Box("b", used={VCPU: 2, MEMORY_MB: 6144}),
        Box("c", used={VCPU: 4, MEMORY_MB: 4096}),
        Box("down", silent_s=999.0),
    ],
    aggregates=[zone("az1", "b", "c", "down")],
)


def plan(driver: Driver, request: Request, policy: Policy | None = None, seed: int = 0) -> Plan:
    """Return the plan of a driver on the fleet."""
    policy = replace(policy or policy_of(runners_up=3), driver=driver)
    return driver.plan(table_of(FLEET), request, policy, now_s=NOW_S, seed=seed)


def hosts_of(found: Plan) -> list[str]:
    """Return the chosen hosts in the order of the instances."""
    return [placement.host for placement in found.placements]


# ---- simple -----------------------------------------------------------------------------------


def test_simple_takes_the_least_loaded_first() -> None:
    """`simple` takes the host with the fewest CPUs in use, then by name."""
    assert hosts_of(plan(simple.build(), asking(count=5))) == ["b", "b", "c", "c", "a"]


def test_simple_names_who_came_next() -> None:
    """The runners-up are in the order of their load."""
    (first,) = plan(simple.build(), asking()).placements
    assert [one.host for one in (first.chosen, *first.runners_up)] == ["b", "c", "a"]
    assert first.chosen.score == -2.0


def test_simple_refuses_above_its_limit_and_says_so() -> None:
    """Above `max_cores` on every host the request is refused with a relaxation."""
    refusal = plan(simple.build(max_cores=3), asking(Flavor("1", "f", 2, 1024))).refusal
    assert refusal is not None
    assert [(one.filter, one.text) for one in refusal.relaxations if one.filter == "max_cores"] == [
        ("max_cores", "1 VCPU less: 1 host")
    ]
    assert "max_cores removed 3" in refusal.message
    (counted,) = (count for count in refusal.filters if count.name == "max_cores")
    assert counted.removed_examples[0] == "a: its use would exceed max_cores = 3 by 5"


def test_simple_refuses_a_limit_that_is_none() -> None:
    """A `max_cores` below 1 is refused."""
    with pytest.raises(ValueError, match="must be at least 1"):
        simple.build(max_cores=0)


# ---- availability zone --------------------------------------------------------------------------


def test_availability_zone_takes_any_host_of_the_zone_that_is_up() -> None:
    """The driver picks any running host of the zone, even without the two filters."""
    bare = policy_of(
        filters=[rule for rule in policy_of().filters if rule.name == "ResourcesFilter"]
    )
    driver = availability_zone.build()
    asked = replace(asking(), availability_zone="az1")
    assert {hosts_of(plan(driver, asked, bare, seed))[0] for seed in range(40)} == {"b", "c"}
    assert {hosts_of(plan(driver, asking(), bare, seed))[0] for seed in range(40)} == set("abc")


# ---- caching ------------------------------------------------------------------------------------


def test_caching_is_the_filter_scheduler_by_another_name() -> None:
    """`caching` makes the plan of the filter scheduler under its own name."""
    policy = policy_of(runners_up=3)
    assert plan(caching.build(), asking(count=3)) == plan(policy.driver, asking(count=3))
    assert caching.build().name == "caching"


# ---- multi --------------------------------------------------------------------------------------

_MULTI = """
name = "m"
driver = "multi"
[driver_options]
default = "simple"
routes = {retry = "chance"}
[[filters]]
name = "ResourcesFilter"
"""


def test_multi_hands_each_operation_to_its_driver() -> None:
    """`multi` passes each operation to the driver of its route."""
    policy = parse_policy(_MULTI, "m.toml")
    hosts = table_of(FLEET)

    def chosen(operation: Operation) -> set[str]:
        asked = replace(asking(), operation=operation)
        plans = (
            policy.driver.plan(hosts, asked, policy, now_s=NOW_S, seed=seed) for seed in range(40)
        )
        return {hosts_of(one)[0] for one in plans}

    assert policy.driver.name == "multi"
    assert chosen(Operation.CREATE) == {"down"}
    assert chosen(Operation.RETRY) == {"a", "b", "c", "down"}


def test_the_drivers_of_multi_have_options_of_their_own() -> None:
    """The drivers of `multi` take their own options."""
    options = "options = {simple = {max_cores = 3}}"
    policy = parse_policy(_MULTI.replace("[[filters]]", f"{options}\n[[filters]]"), "m.toml")
    refusal = policy.driver.plan(
        table_of(FLEET), asking(count=9), policy, now_s=NOW_S, seed=0
    ).refusal
    assert refusal is not None
    assert "max_cores removed 4" in refusal.message


def test_multi_may_hand_requests_to_least_cost() -> None:
    """A route to `least_cost` needs cost functions in the policy."""
    routed = _MULTI.replace('"chance"', '"least_cost"')
    policy = parse_policy(f'{routed}[[costs]]\nname = "compute_fill_first"\n', "m.toml")
    retried = replace(asking(), operation=Operation.RETRY)
    found = policy.driver.plan(table_of(FLEET), retried, policy, now_s=NOW_S, seed=0)
    assert hosts_of(found) == ["b"]
    with pytest.raises(PolicyError, match=r"least_cost requires .* require that driver"):
        parse_policy(routed, "m.toml")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("options = {chance = {}}", "options.chance: no request is passed to a driver"),
        ("options = {filter = {x = 1}}", "driver_options.options.filter.x: is an unknown option"),
        ('routes = {fly = "chance"}', "routes.fly: unknown operation"),
        ('routes = {create = "multi"}', "cannot pass requests to itself"),
        ('default = "multi"', "cannot pass requests to itself"),
        ('default = "nobody"', "there is no driver 'nobody'"),
    ],
)
def test_multi_refuses_what_it_cannot_route(options: str, reason: str) -> None:
    """An invalid route or option is refused with its place in the file."""
    text = _MULTI.replace('default = "simple"', "").replace('routes = {retry = "chance"}', options)
    with pytest.raises(PolicyError, match=reason):
        parse_policy(text, "m.toml")
