"""UsableCapacityWeigher: how much of what a host can still give an instance leaves usable.

What is left of a host is only as good as the scarcest class in it: GPUs without CPUs to feed
them are worth nothing. So the *usable share* of a host is the least share of its capacity that
is free in any class, and placing an instance loses some of it. The value compares what the
instance takes with that loss:

    taken / (taken + loss)

It is 1 where nothing is lost, because another class was scarcer before and after; 1/2 where just
what the instance takes is lost, as on every idle host; and less where more is made useless than
is taken. `taken` is the share of the devices that are asked for, or of the class that is asked
for most when none are: devices are what runs out.
"""

import numpy as np

from berth.scheduling.rule import Query, Reads, Scores, Weigher
from berth.scheduling.whole_hosts import COMMON_CLASSES, WholeHosts, asked_of
from berth.tables.bitsets import Selection, count_of
from berth.tables.hosts import HostTable

_MOST = 1_000
NAME = "UsableCapacityWeigher"


def build(
    *,
    multiplier: float = 1.0,
    steps: int = 20,
    common_classes: tuple[str, ...] = COMMON_CLASSES,
) -> Weigher:
    """Make the weigher; it is Berth's own.

    Args:
        multiplier: above 0 keeps capacity usable.
        steps: values are rounded to so many steps, so that hosts which are about as good count
            as equal, and what comes next (a lower multiplier, the name) tells them apart.
        common_classes: resource classes that are no devices.

    Raises:
        ValueError: `steps` is not 1 to 1,000.
    """
    if not 1 <= steps <= _MOST:
        raise ValueError(f"steps: {steps} must be 1 to 1,000")
    common = frozenset(common_classes)

    def value(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
        asked = asked_of(query.needs)
        if not asked:
            return None
        count = count_of(rows)
        before, after = np.ones(count), np.ones(count)
        taken = np.zeros(count)
        has_devices = not asked.keys() <= common
        table = WholeHosts(hosts, rows)
        for name in table.classes:
            amount = asked.get(name, 0)
            free, share = table.of(name).shares(amount)
            np.minimum(before, free, out=before)
            if not amount:
                np.minimum(after, free, out=after)
                continue
            np.minimum(after, free - share, out=after)
            if not has_devices or name not in common:
                np.maximum(taken, share, out=taken)
        loss = before - after
        values = np.zeros(count)
        np.divide(taken, taken + loss, out=values, where=taken > 0)
        return np.rint(values * steps) / steps

    return Weigher(
        name=NAME,
        raw=value,
        reads=Reads(request=("needs.amounts", "needs.groups"), columns=("used",)),
        multiplier=multiplier,
        floor=0.0,
        ceiling=1.0,
        multiplier_key="usable_capacity_weight_multiplier",
        share=value,
    )
