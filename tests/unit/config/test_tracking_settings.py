"""Settings of instance tracking, and the rules that require it."""

from pathlib import Path

import pytest

from berth.config.agent_settings import InstanceSource
from berth.config.policy_file import load_policy, parse_policy
from berth.config.policy_source import PolicySource
from berth.config.settings_reader import read_settings
from berth.domain.errors import InvalidInputError, PolicyError
from berth.scheduling.plan.instance_rules import check_instances_tracked

ABOUT_HOSTS = 'name = "plain"\n[[filters]]\nname = "ResourcesFilter"\n'


def test_instances_are_tracked_by_the_feed_unless_told_otherwise() -> None:
    """By default, instances come from the feed, and agents sync every two minutes."""
    tracking = read_settings(None, {}, {}).tracking
    assert tracking.track_instance_changes
    assert tracking.instance_information is InstanceSource.FEED
    assert tracking.instance_sync_interval_s == 120.0


def test_settings_come_from_the_environment() -> None:
    """Tracking settings are read from variables."""
    environ = {
        "BERTH_TRACKING_INSTANCE_INFORMATION": "casts",
        "BERTH_TRACKING_INSTANCE_SYNC_INTERVAL_S": "30",
    }
    tracking = read_settings(None, environ, {}).tracking
    assert tracking.instance_information is InstanceSource.CASTS
    assert tracking.instance_sync_interval_s == 30.0


def test_nobody_relies_on_casts_that_nobody_sends() -> None:
    """The source `casts` is refused if agents do not send casts."""
    options = {"tracking.track_instance_changes": False, "tracking.instance_information": "casts"}
    with pytest.raises(InvalidInputError, match="track_instance_changes"):
        read_settings(None, {}, options)


@pytest.mark.parametrize("interval_s", ["0", "0.5", "-1", "1e9"])
def test_an_interval_that_is_none_is_refused(interval_s: str) -> None:
    """The sync interval must be between a second and a day."""
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
        "filters.SimilarInstancesFilter",
        "weighers.SimilarInstancesWeigher",
    ],
)
def test_rules_about_instances_do_not_load_without_tracking(rule: str) -> None:
    """A rule that reads instances is refused; the error names rule and setting."""
    table, _, name = rule.partition(".")
    policy = parse_policy(f'{ABOUT_HOSTS}[[{table}]]\nname = "{name}"\n', "policy.toml")
    with pytest.raises(PolicyError, match=f"{name} reads .*tracking.track_instance_changes is off"):
        check_instances_tracked(policy, "policy.toml")


def test_rules_about_hosts_load_without_tracking() -> None:
    """Rules that read only hosts are accepted."""
    names = ("ComputeFilter", "NUMATopologyFilter", "PciPassthroughFilter", "TraitsFilter")
    rules = "".join(f'[[filters]]\nname = "{name}"\n' for name in names)
    check_instances_tracked(parse_policy(ABOUT_HOSTS + rules, "policy.toml"), "policy.toml")


def test_a_driver_that_adds_such_rules_is_refused_too() -> None:
    """The policy `nova` is refused without tracking."""
    with pytest.raises(PolicyError, match="track_instance_changes"):
        check_instances_tracked(load_policy(Path("nova")), "nova.toml")


def test_a_policy_that_is_refused_does_not_come_into_force(tmp_path: Path) -> None:
    """A refused policy is an error at the start, and leaves the old one in force later."""
    path = tmp_path / "policy.toml"
    path.write_text(ABOUT_HOSTS)
    source = PolicySource(path, check=check_instances_tracked)
    path.write_text(ABOUT_HOSTS + '[[filters]]\nname = "SameHostFilter"\n')
    assert not source.reload()
    assert source.policy.name == "plain"
    assert "SameHostFilter" in (source.last_error or "")
    with pytest.raises(PolicyError, match="SameHostFilter"):
        PolicySource(path, check=check_instances_tracked)
