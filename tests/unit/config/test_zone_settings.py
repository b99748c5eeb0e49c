"""Settings of a zone in a tree of zones."""

from pathlib import Path

import pytest

from berth.config.settings_reader import read_settings
from berth.domain.errors import InvalidInputError
from berth.domain.zones.offer import LapsedHoldAction


def test_nothing_is_a_zone_by_itself() -> None:
    """Without a name, the deployment is not a zone, and the defaults hold."""
    zones = read_settings(None, {}, {}).zones
    assert not zones.is_on
    assert (zones.offer_hold_s, zones.held_share_max, zones.attempts_max) == (10.0, 0.5, 3)
    assert (zones.select_timeout_s, zones.on_gone) == (2.0, LapsedHoldAction.TAKE)


def test_a_zone_from_a_file(tmp_path: Path) -> None:
    """Paths are relative to the file, and a capability may have several values."""
    (tmp_path / "berth.toml").write_text(
        """
        [zones]
        name = "west-1"
        key_file = "keys"
        capabilities = ["hypervisor=kvm; qemu", "os=linux"]
        told_capabilities = ["free.VCPU"]
        on_gone = "refuse"
        offer_hold_s = 0
        """
    )
    zones = read_settings(tmp_path / "berth.toml", {}, {}).zones
    assert zones.is_on
    assert zones.key_file == tmp_path / "keys"
    assert zones.values_by_name == {"hypervisor": ("kvm", "qemu"), "os": ("linux",)}
    assert zones.told_capabilities == ("free.VCPU",)
    assert (zones.on_gone, zones.offer_hold_s) == (LapsedHoldAction.REFUSE, 0.0)


def test_a_zone_from_the_environment() -> None:
    """Lists are separated by commas, and the values of a capability by semicolons."""
    environ = {"BERTH_ZONES_NAME": "west", "BERTH_ZONES_CAPABILITIES": "a=1, b=2;3"}
    zones = read_settings(None, environ, {}).zones
    assert zones.name == "west"
    assert zones.values_by_name == {"a": ("1",), "b": ("2", "3")}


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("name", "West", "zones.name: 'West' must consist of 1 to 64 characters"),
        ("name", "a b", "zones.name"),
        ("capabilities", "kvm", "must be NAME=VALUE;VALUE"),
        ("capabilities", "a=1,a=2", "with each name once"),
        ("capabilities", "a=;", "must be NAME=VALUE;VALUE"),
        ("held_share_max", "1.5", "<= 1"),
        ("select_timeout_s", "61", "<= 60"),
        ("on_gone", "panic", "one of take, other, refuse"),
        ("offer_hold_s", "100", "zones.offer_life_s"),
    ],
)
def test_what_cannot_be_is_refused(key: str, value: str, reason: str) -> None:
    """The error names the invalid setting."""
    with pytest.raises(InvalidInputError) as caught:
        read_settings(None, {f"BERTH_ZONES_{key.upper()}": value}, {})
    assert reason in str(caught.value)
