"""Instance tracking in assembled processes: agents and schedulers respect each setting."""

from pathlib import Path

import pytest

from berth.app.agents import instance_caster
from berth.app.core import open_core
from berth.app.scheduler import instance_tracker
from berth.config.settings import Settings
from berth.config.settings_reader import read_settings
from berth.domain.errors import PolicyError

_PLAIN = 'name = "plain"\n[[filters]]\nname = "ResourcesFilter"\n'


def _settings(folder: Path, **tracking: object) -> Settings:
    (folder / "policy.toml").write_text(_PLAIN)
    options: dict[str, object] = {
        "ledger.data_dir": str(folder),
        "policy.path": str(folder / "policy.toml"),
    }
    options |= {f"tracking.{name}": value for name, value in tracking.items()}
    return read_settings(None, {}, options)


async def test_tracking_is_on_by_default(tmp_path: Path) -> None:
    """By default agents send and schedulers track; instances come from the feed."""
    async with open_core(_settings(tmp_path), "scheduler") as core:
        tracker = instance_tracker(core)
        assert tracker is not None
        assert not tracker.is_in_doubt
        assert instance_caster(core, ["host-1"]) is not None
        assert {one.measure.name for one in tracker.read()} == {
            "berth_hosts_unreported",
            "berth_hosts_doubted",
        }


async def test_casts_are_the_source_when_that_is_set(tmp_path: Path) -> None:
    """With casts as the source, every decision must first settle what the tracker knows."""
    settings = _settings(tmp_path, instance_information="casts")
    async with open_core(settings, "scheduler") as core:
        tracker = instance_tracker(core)
        assert tracker is not None
        assert tracker.is_in_doubt


async def test_nobody_tells_or_listens_when_tracking_is_off(tmp_path: Path) -> None:
    """With tracking off, the scheduler has no tracker and the agent has no caster."""
    settings = _settings(tmp_path, track_instance_changes=False)
    async with open_core(settings, "scheduler") as core:
        assert instance_tracker(core) is None
        assert instance_caster(core, ["host-1"]) is None


async def test_a_policy_about_instances_ends_the_start_when_tracking_is_off(
    tmp_path: Path,
) -> None:
    """With the policy "nova" and tracking off, the error names a rule and the setting."""
    options = {
        "ledger.data_dir": str(tmp_path),
        "policy.path": "nova",
        "tracking.track_instance_changes": False,
    }
    settings = read_settings(None, {}, options)
    with pytest.raises(PolicyError, match=r"ServerGroup.*tracking\.track_instance_changes is off"):
        async with open_core(settings, "scheduler"):
            pass
