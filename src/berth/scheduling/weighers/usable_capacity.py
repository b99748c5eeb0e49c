"""UsableCapacityWeigher: how little of a host's usable capacity an instance wastes.

The remaining capacity of a host is only as good as its scarcest class: GPUs without CPUs to feed
them are worth nothing. So the *usable share* of a host is the least free share of any class, and
placing an instance loses some of it. The value compares what the instance takes with that loss:

    taken / (taken + loss)

It is 1 if nothing is lost, because another class was scarcer before and after; 1/2 if exactly what
the instance takes is lost, as on every idle host; and less if more becomes useless than is taken.
`taken` is the share of the requested devices, or, if none are requested, of the class with the
largest requested share: devices are what runs out first.
"""

from typing import Final

from berth.scheduling.rules.measure import Arithmetic, BoundMeasure, Rule, Value, constant
from berth.scheduling.rules.rule import Query, Reads, Weigher
from berth.scheduling.rules.whole_hosts import COMMON_CLASSES, asked_of, rebound, whole_hosts
from berth.tables.host.hosts import HostTable

NAME = "UsableCapacityWeigher"
_STEPS_MAX: Final = 1_000

# Below any share, so that a host that loses and gives nothing is not divided by 0.
_LEAST: Final = 1e-300


def build(
    *,
    multiplier: float = 1.0,
    steps: int = 20,
    common_classes: tuple[str, ...] = COMMON_CLASSES,
) -> Weigher:
    """Build the weigher, which Nova does not have.

    Args:
        multiplier: above 0 keeps capacity usable.
        steps: values are rounded to this many steps, so that hosts of about the same value count
            as equal, and a weigher with a lower multiplier or the host name decides between them.
        common_classes: resource classes that do not count as devices.

    Raises:
        ValueError: `steps` is not 1 to 1,000.
    """
    if not 1 <= steps <= _STEPS_MAX:
        raise ValueError(f"steps: {steps} must be 1 to 1,000")
    common = frozenset(common_classes)

    def bind(hosts: HostTable, query: Query) -> BoundMeasure | None:
        asked = asked_of(query.needs)
        if not asked:
            return None
        counted = asked.keys() - common or asked.keys()
        classes = whole_hosts(hosts)
        if counted.isdisjoint(classes):
            return constant(0.0)
        asks = [(asked.get(name, 0), name in counted) for name in classes]

        def value(ops: Arithmetic, *values: Value) -> Value:
            before: Value = 1.0
            after: Value = 1.0
            taken: Value = 0.0
            for (amount, counts), capacity, used in zip(
                asks, values[::2], values[1::2], strict=True
            ):
                # A class that the host lacks limits nothing, so all of it counts as free.
                free = left = ops.ratio(capacity - used, capacity, 1.0)
                if amount:
                    share = ops.ratio(amount, capacity, 0.0)
                    left = free - share
                    taken = ops.greatest(share, taken) if counts else taken
                before, after = ops.least(free, before), ops.least(left, after)
            loss_and_taken = before - after + taken
            return ops.rounded(taken / ops.greatest(loss_and_taken, _LEAST) * steps) / steps

        return BoundMeasure([column for one in classes.values() for column in one], value)

    usable = Rule(rebound(bind))
    return Weigher(
        name=NAME,
        raw=usable,
        reads=Reads(request=("needs.amounts", "needs.groups"), columns=("used",)),
        multiplier=multiplier,
        floor=0.0,
        ceiling=1.0,
        multiplier_key="usable_capacity_weight_multiplier",
        share=usable,
    )
