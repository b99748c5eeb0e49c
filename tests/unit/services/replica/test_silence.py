"""Which silence of hosts proves nothing."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.services.replica.silence import judge_silence
from berth.tables.host.feed import table_of
from berth.tables.host.hosts import HostTable
from berth.testing.fleets import NOW_S, Box, snapshot_of

DOWN_S = 60.0
PLAIN = Box("")
LIVE, DEAD, LONG_DEAD = 5.0, 100.0, 5_000.0


def fleet(ages_s: Sequence[float], like: Box = PLAIN) -> HostTable:
    """Return hosts with these ages of their heartbeats, and otherwise like a given one."""
    boxes = [replace(like, name=f"h{row}", silent_s=age_s) for row, age_s in enumerate(ages_s)]
    return table_of(snapshot_of(boxes))


@pytest.mark.parametrize(
    ("ages_s", "at_once", "is_uncertain"),
    [
        ((), 0, False),
        ((LIVE,), 0, False),
        # No host is left, so their silence is as likely that of the control plane.
        ((DEAD,), 1, True),
        ((DEAD, DEAD), 2, True),
        # One host of two is not more than half, and one host alone is never a common fault.
        ((LIVE, DEAD), 1, False),
        ((LIVE, DEAD, DEAD), 2, True),
        ((LIVE, LIVE, DEAD, DEAD), 2, False),
        # Hosts that fell silent one after another are dead, however many they are.
        ((LIVE, 100.0, 200.0, 300.0, 400.0), 1, False),
        ((LIVE, 100.0, 130.0, 160.0), 3, True),
        # Hosts that died before do not count on either side.
        ((LIVE, LIVE, LONG_DEAD, LONG_DEAD, DEAD, DEAD, DEAD), 3, True),
        ((LIVE, LIVE, LIVE, LONG_DEAD, LONG_DEAD, DEAD, DEAD), 2, False),
    ],
)
def test_many_hosts_at_once_are_uncertain(
    ages_s: tuple[float, ...], at_once: int, *, is_uncertain: bool
) -> None:
    """More than half of the hosts that fall silent within one interval are uncertain."""
    found = judge_silence(fleet(ages_s), NOW_S, DOWN_S)
    assert (len(found.at_once), found.is_uncertain) == (at_once, is_uncertain)


@pytest.mark.parametrize("taken", [Box("", disabled=True), Box("", forced_down=True)])
def test_hosts_that_an_operator_took_away_do_not_count(taken: Box) -> None:
    """The silence of hosts that are disabled or forced down is no sign of anything."""
    found = judge_silence(fleet((DEAD, DEAD, LIVE), taken), NOW_S, DOWN_S)
    assert (found.hosts, found.at_once, found.is_uncertain) == (0, frozenset(), False)


@given(
    ages_s=st.lists(st.sampled_from([*range(0, 400, 20)]), max_size=12),
    share_max=st.sampled_from([0.0, 0.3, 0.5, 1.0]),
)
def test_the_largest_group_decides(ages_s: list[int], share_max: float) -> None:
    """The group is the largest within one interval, and the rule is that of the definition."""
    found = judge_silence(fleet(ages_s), NOW_S, DOWN_S, share_max)
    silent = [age for age in ages_s if age > DOWN_S]
    sizes = [sum(first <= age <= first + DOWN_S for age in silent) for first in silent]
    largest, up = max(sizes, default=0), len(ages_s) - len(silent)
    assert len(found.at_once) == largest
    assert found.hosts == up + largest
    is_common = largest >= 2 and largest > share_max * (up + largest)
    assert found.is_uncertain == (bool(silent) and (not up or is_common))
