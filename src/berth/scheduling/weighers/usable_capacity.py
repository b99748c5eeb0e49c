"""UsableCapacityWeigher: how little of a host's usable capacity an instance wastes.

The free capacity of a host is only as useful as its scarcest class: free GPUs cannot be used
without free CPUs. So the *usable share* of a host is the least free share of any class, and placing
an instance may lower it. The value compares what the instance takes with that loss:

    taken / (taken + loss)

The value is 1 if nothing is lost, because another class is scarcer before and after. It is 1/2 if
the loss equals what the instance takes, as on an idle host unless another class has a larger
requested share, and less if the loss is larger.
`taken` is the largest requested share of a device class or, if no devices are requested, of any
class, because devices run out first.
"""

from typing import Final

from berth.scheduling.rules.measure import Arithmetic, BoundMeasure, Rule, Value, constant
from berth.scheduling.rules.rule import Query, Reads, Weigher
from berth.scheduling.rules.whole_hosts import COMMON_CLASSES, asked_of, rebound, whole_hosts
from berth.tables.host.hosts import HostTable

NAME = "UsableCapacityWeigher"
_STEPS_MAX: Final = 1_000

# The least divisor, smaller than any share. A host that loses nothing, and of which the request
# takes nothing, would otherwise have the divisor 0.
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
        steps: values are rounded to multiples of 1 / `steps`, so that hosts with about the same
            value become equal, and a weigher with a lower multiplier or the host name decides.
        common_classes: the resource classes that are not devices.

    Raises:
        ValueError: `steps` is not between 1 and 1,000.
    """
    if not 1 <= steps <= _STEPS_MAX:
        raise ValueError(f"steps: {steps} must be between 1 and 1,000")
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
                # A class that the host lacks limits nothing, so its free share is 1.
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
