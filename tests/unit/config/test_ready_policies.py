"""Ready policies: each is chosen by the name that its file has."""

from importlib.resources import files
from pathlib import Path

import pytest

from berth.config.plugins import FILTERS, plugin_names
from berth.config.policy_file import load_policy, source_name
from berth.config.policy_source import PolicySource
from berth.config.ready_policies import DEFAULT, READY
from berth.config.settings_reader import read_settings
from berth.domain.errors import PolicyError
from berth.scheduling.lint.policy_lint import lint_policy
from berth.scheduling.rules.rule import Normalisation

OURS = [name for name in READY if not name.startswith("nova")]
NOVA_WEIGHERS = {
    "RAMWeigher": 1.0,
    "CPUWeigher": 1.0,
    "DiskWeigher": 1.0,
    "IoOpsWeigher": -1.0,
    "MetricsWeigher": 1.0,
    "PCIWeigher": 1.0,
    "ServerGroupSoftAffinityWeigher": 1.0,
    "ServerGroupSoftAntiAffinityWeigher": 1.0,
    "BuildFailureWeigher": -1e6,  # Nova negates the option of this weigher
    "CrossCellWeigher": 1e6,
    "HypervisorVersionWeigher": 1.0,
    "NumInstancesWeigher": 0.0,
    "ImagePropertiesWeigher": 0.0,
}
PIKE_WEIGHERS = (
    "RAMWeigher",
    "DiskWeigher",
    "IoOpsWeigher",
    "MetricsWeigher",
    "PCIWeigher",
    "ServerGroupSoftAffinityWeigher",
    "ServerGroupSoftAntiAffinityWeigher",
)


def test_every_file_is_on_offer() -> None:
    """The folder has exactly the files of the ready policies."""
    found = {one.name for one in files("berth.config").joinpath("policies").iterdir()}
    assert found == {f"{name}.toml" for name in READY}


@pytest.mark.parametrize("name", READY)
def test_a_name_chooses_the_policy(name: str) -> None:
    """A name is accepted instead of a path, and a reload of it changes nothing."""
    policy = load_policy(Path(name))
    assert policy.name == name
    assert source_name(Path(name)) == f"{name}.toml"
    source = PolicySource(Path(name))
    assert source.policy.hash == policy.hash
    assert not source.reload()
    assert source.last_error is None


def test_without_a_name_the_default_is_in_force() -> None:
    """The policy without a path is the default one."""
    assert load_policy(None).hash == load_policy(Path(DEFAULT)).hash


@pytest.mark.parametrize("name", OURS)
def test_ours_weigh_shares_and_have_no_traps(name: str) -> None:
    """Berth's own policies normalise by share and cause no lint warnings."""
    policy = load_policy(Path(name))
    assert policy.normalisation is Normalisation.SHARE
    assert lint_policy(policy) == []
    assert {rule.name for rule in policy.filters} <= set(plugin_names(FILTERS))
    assert policy.filters == load_policy(None).filters or len(policy.filters) == 14


def test_nova_is_as_nova_has_it() -> None:
    """The policy has Nova's thirteen weighers with their multipliers, and Nova's five filters."""
    policy = load_policy(Path("nova"))
    assert policy.normalisation is Normalisation.NOVA
    assert {rule.name: rule.multiplier for rule in policy.weighers} == NOVA_WEIGHERS
    assert [rule.name for rule in policy.filters][-5:] == [
        "ComputeFilter",
        "ComputeCapabilitiesFilter",
        "ImagePropertiesFilter",
        "ServerGroupAntiAffinityFilter",
        "ServerGroupAffinityFilter",
    ]


def test_nova_pike_is_as_nova_had_it() -> None:
    """The policy has the seven weighers and seven filters of Nova in Pike."""
    policy = load_policy(Path("nova-pike"))
    assert policy.normalisation is Normalisation.NOVA
    assert {rule.name: rule.multiplier for rule in policy.weighers} == {
        name: -1.0 if name == "IoOpsWeigher" else 1.0 for name in PIKE_WEIGHERS
    }
    assert [rule.name for rule in policy.filters][-7:] == [
        "RetryFilter",
        "AvailabilityZoneFilter",
        "ComputeFilter",
        "ComputeCapabilitiesFilter",
        "ImagePropertiesFilter",
        "ServerGroupAntiAffinityFilter",
        "ServerGroupAffinityFilter",
    ]


def test_a_settings_file_may_name_one(tmp_path: Path) -> None:
    """A ready policy's name is not resolved as a path relative to the settings file."""
    file = tmp_path / "berth.toml"
    file.write_text('[policy]\npath = "spread"\n')
    assert read_settings(file, {}, {}).policy.path == Path("spread")
    file.write_text('[policy]\npath = "mine.toml"\n')
    assert read_settings(file, {}, {}).policy.path == tmp_path / "mine.toml"


def test_an_unknown_name_is_told_the_known_ones() -> None:
    """The error lists the ready policies."""
    with pytest.raises(PolicyError, match=r"name of a ready policy: default, pack, balanced"):
        load_policy(Path("packed"))
