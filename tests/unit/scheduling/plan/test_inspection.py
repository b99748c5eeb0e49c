"""Tests for inspecting plans, including filters that a driver adds."""

from dataclasses import replace

import pytest

from berth.config.policy_file import parse_policy
from berth.domain.compute.request import Operation, Request
from berth.scheduling.evaluation.policy import Policy
from berth.scheduling.lint.policy_lint import lint_fleet
from berth.scheduling.plan.capacity import capacity_for
from berth.scheduling.plan.inspection import inspect
from berth.tables.host.feed import table_of
from berth.testing.fleets import NOW_S, Box, asking, snapshot_of, zone

BARE = '\n[[filters]]\nname = "ResourcesFilter"\n'
SIMPLE = f'name = "p"\ndriver = "simple"{BARE}[driver_options]\nmax_cores = 3\n'
ZONED = f'name = "p"\ndriver = "availability_zone"{BARE}'
BY_HAND = (
    f'name = "p"\ndriver = "multi"{BARE}[driver_options]\nroutes = {{create = "%s"}}\n'
    "options = {simple = {max_cores = 3}}\n"
)
FLEET = snapshot_of(
    [
        Box("busy", used={"VCPU": 3}),
        Box("idle"),
        Box("down", silent_s=999.0),
        Box("elsewhere"),
    ],
    aggregates=[zone("az1", "busy", "idle", "down")],
)
IN_ZONE = replace(asking(), availability_zone="az1")


@pytest.mark.parametrize(
    ("text", "request_", "added", "removed"),
    [
        (SIMPLE, asking(), {"max_cores": 1}, {"busy"}),
        (BY_HAND % "simple", asking(), {"max_cores": 1}, {"busy"}),
        (
            ZONED,
            IN_ZONE,
            {"ComputeFilter": 1, "AvailabilityZoneFilter": 1},
            {"down", "elsewhere"},
        ),
        (
            BY_HAND.replace("simple =", "availability_zone =").replace("max_cores = 3", "")
            % "availability_zone",
            IN_ZONE,
            {"ComputeFilter": 1, "AvailabilityZoneFilter": 1},
            {"down", "elsewhere"},
        ),
    ],
)
def test_the_drivers_own_filters_are_explained_and_counted(
    text: str, request_: Request, added: dict[str, int], removed: set[str]
) -> None:
    """A driver's filters appear in verdicts, counts and capacities."""
    policy, hosts = parse_policy(text, "p"), table_of(FLEET)
    plan = policy.driver.plan(hosts, request_, policy, now_s=NOW_S, seed=0)
    found = inspect(hosts, request_, policy, now_s=NOW_S, seed=0)
    (instance,) = found.instances
    assert instance.filters == plan.filters
    counts = {one.name: one.before - one.after for one in plan.filters}
    assert counts == {"ResourcesFilter": 0, **added}
    assert {one.host for one in instance.removed} == removed
    for one in instance.removed:
        assert one.removed_by is not None
        assert one.removed_by.filter in added
        assert one.removed_by.why
    assert instance.placement is not None
    assert instance.candidates_total == instance.placement.candidates == 4 - len(removed)
    room = capacity_for(hosts, request_, policy, now_s=NOW_S)
    assert set(hosts.names(room.rows)) == {one.host for one in instance.candidates}


def test_each_operation_has_the_filters_of_its_driver() -> None:
    """Each operation of `multi` has the filters of its own driver."""
    policy = parse_policy(BY_HAND % "simple", "p")
    assert [rule.name for rule in policy.effective(Operation.CREATE).filters] == [
        "ResourcesFilter",
        "max_cores",
    ]
    assert policy.effective(Operation.RETRY) is policy
    retried = replace(asking(), operation=Operation.RETRY)
    assert capacity_for(table_of(FLEET), retried, policy, now_s=NOW_S).rows.size == 4


@pytest.mark.parametrize("driver", ["availability_zone", "multi"])
def test_the_default_zone_of_a_policy_is_that_of_its_driver_too(driver: str) -> None:
    """The default zone of the driver's filter is that of the policy, unless a filter sets it."""
    options = {
        "availability_zone": 'default_availability_zone = "here"\n',
        "multi": 'default = "availability_zone"\n'
        'options = {availability_zone = {default_availability_zone = "here"}}\n',
    }[driver]
    head, tail = f'name = "p"\ndriver = "{driver}"', f"[driver_options]\n{options}"
    zoned = '[[filters]]\nname = "AvailabilityZoneFilter"\ndefault_availability_zone = "there"\n'
    assert _zone_of(parse_policy(f"{head}{BARE}{tail}", "p")) == "here"
    assert _zone_of(parse_policy(f"{head}{BARE}{zoned}{tail}", "p")) == "there"


def _zone_of(policy: Policy) -> str:
    """Return the policy's default zone and check that hosts without a zone are in it."""
    name = policy.default_availability_zone
    lone = table_of(snapshot_of([Box("alone")]))
    for asked, hosts in ((name, 1), ("another", 0)):
        wanted = replace(asking(), availability_zone=asked)
        assert capacity_for(lone, wanted, policy, now_s=NOW_S).rows.size == hosts
    return name


def test_the_linter_asks_the_drivers_own_filters_too() -> None:
    """The linter applies the driver's filters."""
    policy = parse_policy(SIMPLE, "p")
    flavor = replace(asking().flavor, name="wide", vcpus=4)
    found = lint_fleet(policy, table_of(FLEET), [flavor], now_s=NOW_S)
    assert [one.text for one in found if one.where == "flavor wide"] == [
        "currently no host passes max_cores"
    ]


def test_later_instances_see_the_earlier_ones_at_the_limit() -> None:
    """The driver's limit is applied again to each instance."""
    policy, hosts = parse_policy(SIMPLE, "p"), table_of(FLEET)
    found = inspect(hosts, asking(count=4), policy, now_s=NOW_S, seed=0)
    plan = policy.driver.plan(hosts, asking(count=4), policy, now_s=NOW_S, seed=0)
    assert tuple(one.placement for one in found.instances) == plan.placements
    assert found.instances[-1].filters == plan.filters
    assert [one.removed_total for one in found.instances] == [1, 1, 1, 1]
