"""Tests for profiles, the host attributes that many hosts share."""

import numpy as np

from berth.domain.compute.host import Host
from berth.tables.host.profiles import Profile, Profiles
from berth.testing.fleets import Box

ONE = Box("a", cpu_info={"x": 1, "y": [2]}, stats={"k": "v", "j": "w"})


def test_equal_attributes_have_one_number() -> None:
    """Equal attributes have one number, whatever the order of keys and the host's name."""
    profiles = Profiles()
    other = Box("b", cpu_info={"y": [2], "x": 1}, stats={"j": "w", "k": "v"})
    assert profiles.number(ONE.host) == profiles.number(other.host) != 0
    assert profiles.number(Box("c").host) != profiles.number(ONE.host)


def test_a_profile_is_forgotten_with_its_last_host() -> None:
    """A profile is dropped with its last host."""
    profiles = Profiles()
    number = 0
    for report in range(100):
        number = profiles.number(Box("a", stats={"uptime": str(report)}).host)
        if report < 99:
            profiles.interned.release(number)
    assert len(profiles.all) == 2
    assert profiles.all[number] is not None


def test_a_profile_stays_while_another_host_has_it() -> None:
    """A profile stays as long as one host has it."""
    profiles = Profiles()
    number = profiles.number(ONE.host)
    profiles.number(ONE.host)
    profiles.interned.release(number)
    assert profiles.all[number] is not None
    profiles.interned.release(number)
    assert profiles.all[number] is None


def test_each_profile_is_tested_once() -> None:
    """Each profile with hosts is tested once, and the result is spread over the rows."""
    profiles = Profiles()
    numbers = [profiles.number(box.host) for box in (ONE, Box("b"), Box("c"), ONE)]
    profiles.interned.release(profiles.number(Box("d", hypervisor_type="other").host))
    asked: list[str] = []

    def has_stats(profile: Profile) -> bool:
        asked.append(profile.hypervisor_type)
        return bool(profile.stats)

    mask = profiles.mask(np.array(numbers, dtype=np.int32), has_stats)
    assert mask.tolist() == [True, False, False, True]
    assert asked == ["QEMU", "QEMU"]


def test_a_host_without_attributes_is_a_host_too() -> None:
    """A host without attributes shares the number of unused rows and is tested all the same."""
    profiles = Profiles()
    numbers = np.array([profiles.number(Host("u", "h", "h", hypervisor_type=""))], dtype=np.int32)
    assert profiles.mask(numbers, lambda profile: bool(profile.stats)).tolist() == [False]
    assert profiles.mask(numbers, lambda _: True).tolist() == [True]


def test_no_rows_give_an_empty_mask() -> None:
    """The mask of no rows is empty."""
    assert Profiles().mask(np.zeros(0, dtype=np.int32), lambda _: True).tolist() == []


def test_stats_can_be_looked_up_by_name() -> None:
    """Stats can be looked up by name, and `cpu_info` is stored as JSON."""
    profiles = Profiles()
    profile = profiles.all[profiles.number(ONE.host)]
    assert profile is not None
    assert profile.stats_by_name == {"j": "w", "k": "v"}
    assert profile.cpu_info == '{"x":1,"y":[2]}'
