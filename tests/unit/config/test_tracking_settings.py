"""Settings of instance tracking: what goes together, and what is refused without it."""

from pathlib import Path

import pytest

from berth.config.policy_file import load_policy, parse_policy
from berth.config.policy_source import PolicySource
from berth.config.settings import InstanceSource
from berth.config.settings_reader import read_settings
from berth.domain.errors import InvalidInputError, PolicyError
from berth.scheduling.plan.instance_rules import check_instances_tracked

ABOUT_HOSTS = 'name = "plain"\n[[filters]]\nname = "ResourcesFilter"\n'


def test_instances_are_tracked_by_the_feed_unless_told_otherwise() -> None:
    """The defaults: the feed tells, agents sync every two minutes."""
    tracking = read_settings(None, {}, {}).tracking
    assert tracking.track_instance_changes
    assert tracking.instance_information is InstanceSource.FEED
    assert tracking.instance_sync_interval_s == 120.0


def test_settings_come_from_the_environment() -> None:
    """As all others do."""
    environ = {
        "BERTH_TRACKING_INSTANCE_INFORMATION": "casts",
        "BERTH_TRACKING_INSTANCE_SYNC_INTERVAL_S": "30",
    }
    tracking = read_settings(None, environ, {}).tracking
    assert tracking.instance_information is InstanceSource.CASTS
    assert tracking.instance_sync_interval_s == 30.0


def test_nobody_relies_on_casts_that_nobody_sends() -> None:
    """Casts as the source need agents that tell."""
    options = {"tracking.track_instance_changes": False, "tracking.instance_information": "casts"}
    with pytest.raises(InvalidInputError, match="track_instance_changes"):
        read_settings(None, {}, options)


@pytest.mark.parametrize("interval_s", ["0", "0.5", "-1", "1e9"])
def test_an_interval_that_is_none_is_refused(interval_s: str) -> None:
    """Syncs come at most every second, and at least once a day."""
    environ = {"BERTH_TRACKING_INSTANCE_SYNC_INTERVAL_S": interval_s}
    with pytest.raises(InvalidInputError, match="INSTANCE_SYNC_INTERVAL_S"):
        read_settings(None, environ, {})


@pytest.mark.parametrize(
    "rule",
    [
        "filters.SameHostFilter",
        "filters.DifferentHostFilter",
        "filters.TypeAffinityFilter",
        "filters.ServerGroupAffinityFilter",
        "filters.ServerGroupAntiAffinityFilter",
        "filters.NumInstancesFilter",
        "filters.IoOpsFilter",
        "filters.AggregateNumInstancesFilter",
        "filters.AggregateIoOpsFilter",
        "weighers.ServerGroupSoftAffinityWeigher",
        "weighers.ServerGroupSoftAntiAffinityWeigher",
        "weighers.NumInstancesWeigher",
        "weighers.IoOpsWeigher",
        "weighers.ImagePropertiesWeigher",
    ],
)
def test_rules_about_instances_do_not_load_without_tracking(rule: str) -> None:
    """The error names the rule and the setting."""
    table, _, name = rule.partition(".")
    policy = parse_policy(f'{ABOUT_HOSTS}[[{table}]]\nname = "{name}"\n', "policy.toml")
    with pytest.raises(PolicyError, match=f"{name} reads .*tracking.track_instance_changes is off"):
        check_instances_tracked(policy, "policy.toml")


def test_rules_about_hosts_load_without_tracking() -> None:
    """Room, traits, NUMA cells and devices are no instance information."""
    names = ("ComputeFilter", "NUMATopologyFilter", "PciPassthroughFilter", "TraitsFilter")
    rules = "".join(f'[[filters]]\nname = "{name}"\n' for name in names)
    check_instances_tracked(parse_policy(ABOUT_HOSTS + rules, "policy.toml"), "policy.toml")


def test_a_driver_that_adds_such_rules_is_refused_too() -> None:
    """What counts is what is in force."""
    with pytest.raises(PolicyError, match="track_instance_changes"):
        check_instances_tracked(load_policy(Path("nova")), "nova.toml")


def test_a_policy_that_is_refused_does_not_come_into_force(tmp_path: Path) -> None:
    """At the start nothing begins; later the policy in force stays, and says why."""
    path = tmp_path / "policy.toml"
    path.write_text(ABOUT_HOSTS)
    source = PolicySource(path, check=check_instances_tracked)
    path.write_text(ABOUT_HOSTS + '[[filters]]\nname = "SameHostFilter"\n')
    assert not source.reload()
    assert source.policy.name == "plain"
    assert "SameHostFilter" in (source.last_error or "")
    with pytest.raises(PolicyError, match="SameHostFilter"):
        PolicySource(path, check=check_instances_tracked)
