"""Silence of hosts: the silent hosts, and whether their silence proves anything about them.

One silent host is a dead host, or one whose network failed. When most hosts fall silent at the same
time, a fault of the control plane or of its network is more likely than the death of all of them.
"""

from typing import Final, NamedTuple

import numpy as np

from berth.tables.host.hosts import HostTable

SILENT_SHARE_MAX: Final = 0.5
"""The share of the hosts that may fall silent at once and still count as down."""

# The silence of a single host among others is never a common fault, however small the fleet.
_SILENT_MIN: Final = 2


class Silence(NamedTuple):
    """The silent hosts of a fleet at one time.

    Hosts that are disabled or forced down do not count, because an operator has decided their
    state.

    Attributes:
        hosts: the number of hosts that count, without those that fell silent at other times.
        at_once: the names of the hosts in the largest group that fell silent within
            `service_down_time_s` of each other.
        is_uncertain: whether so many hosts fell silent at once that their silence proves nothing.
    """

    hosts: int = 0
    at_once: frozenset[str] = frozenset()
    is_uncertain: bool = False

    def __str__(self) -> str:
        return f"{len(self.at_once):,} of {self.hosts:,} hosts fell silent at the same time"


def judge_silence(
    table: HostTable, now_s: float, service_down_time_s: float, share_max: float = SILENT_SHARE_MAX
) -> Silence:
    """Return the silent hosts of a table, and whether they may be up after all.

    They may be up if all hosts that count are silent, or if at least two, and more than
    `share_max` of them, fell silent within `service_down_time_s` of each other. Hosts that fell
    silent at other times are considered dead, and do not count at all.

    Args:
        table: the hosts.
        now_s: Unix seconds.
        service_down_time_s: seconds without a heartbeat after which a host is silent.
        share_max: the share of the hosts, from 0 to 1, that may fall silent at once.
    """
    # A heartbeat from the future counts like a past one at the same distance.
    age_s = np.abs(now_s - table.last_seen_s)
    counted = table.alive & table.enabled & ~table.forced_down
    is_silent = counted & (age_s > service_down_time_s)
    silent = np.flatnonzero(is_silent)
    up = int(np.count_nonzero(counted)) - silent.size
    if not silent.size:
        return Silence(up)
    silent = silent[np.argsort(age_s[silent], kind="stable")]
    ages_s = age_s[silent]
    ends = np.searchsorted(ages_s, ages_s + service_down_time_s, side="right")
    first = int(np.argmax(ends - np.arange(silent.size)))
    group = silent[first : ends[first]]
    is_common = group.size >= _SILENT_MIN and group.size > share_max * (up + group.size)
    return Silence(
        up + group.size,
        frozenset(table.name(int(row)) for row in group),
        is_uncertain=not up or is_common,
    )
