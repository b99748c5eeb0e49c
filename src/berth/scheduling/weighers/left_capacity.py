"""LeftCapacityWeigher: the share of a host's capacity that remains once the instance is on it.

The value is the mean over the resource classes that the instance asks for. A small and a large host
therefore have the same value if equal shares of them remain, and classes counted in large numbers
have no more weight than others. A class that the host lacks has the share 0.
"""

from berth.scheduling.rules.measure import Arithmetic, BoundMeasure, Rule, Value, constant
from berth.scheduling.rules.rule import Query, Reads, Weigher
from berth.scheduling.rules.whole_hosts import asked_of, rebound, whole_hosts
from berth.tables.host.hosts import HostTable

NAME = "LeftCapacityWeigher"


def build(*, multiplier: float = 1.0) -> Weigher:
    """Build the weigher, which Nova does not have.

    Args:
        multiplier: above 0 spreads instances, below 0 packs them (best fit over several classes).
    """
    left = Rule(rebound(_left))
    return Weigher(
        name=NAME,
        raw=left,
        reads=Reads(request=("needs.amounts", "needs.groups"), columns=("used",)),
        multiplier=multiplier,
        floor=0.0,
        ceiling=1.0,
        multiplier_key="left_capacity_weight_multiplier",
        share=left,
    )


def _left(hosts: HostTable, query: Query) -> BoundMeasure | None:
    asked = asked_of(query.needs)
    if not asked:
        return None
    wanted = [(asked[name], one) for name, one in whole_hosts(hosts).items() if name in asked]
    if not wanted:
        return constant(0.0)

    def mean(ops: Arithmetic, *values: Value) -> Value:
        left: Value = 0.0
        for (amount, _), capacity, used in zip(wanted, values[::2], values[1::2], strict=True):
            # With one division instead of two, rounding would order nearly equal hosts differently,
            # and recorded decisions must replay to the same host.
            share = ops.ratio(capacity - used, capacity, 0.0) - ops.ratio(amount, capacity, 0.0)
            left = left + ops.greatest(share, 0.0)
        return left / len(asked)

    return BoundMeasure([column for _, one in wanted for column in one], mean)
