"""BuildFailureWeigher: failed builds count against a host.

The share is failures / (failures + 1): 0 for a host without failures, 1/2 after one.
"""

from berth.scheduling.rules.measure import Arithmetic, BoundMeasure, Rule, Value, filled
from berth.scheduling.rules.rule import Query, Reads, Weigher
from berth.tables.host.hosts import HostTable

NAME = "BuildFailureWeigher"


def build(
    *, multiplier: float = 1_000_000.0, decay_s: float = 0.0, by_tenant: bool = False
) -> Weigher:
    """Build the weigher (nova-behaviour.md 2.7, 5.2).

    Values are normalised, so with the default multiplier one failure outweighs everything else; a
    multiplier of about 1 gives it the weight of free memory. Nova's count includes each failure
    since the last successful build, for any tenant, so one bad image can mark many hosts. With
    `decay_s`, hosts recover without a successful build. With `by_tenant`, the weigher reads the
    host's failure level, which the gateway derives from failures by cause and tenant and which
    decays over time (`domain.compute.build_failure`).

    Args:
        multiplier: the weight of failures, as a positive number; it is negated.
        decay_s: seconds in which Nova's count falls linearly to 0 after the newest failure; 0 keeps
            it until a build succeeds, as Nova does.
        by_tenant: read the level of failures by cause and tenant instead of Nova's count.

    Raises:
        ValueError: `decay_s` is below 0, or is given with `by_tenant`.
    """
    if decay_s < 0:
        raise ValueError(f"decay_s: {decay_s} must be 0 (no decay) or above")
    if decay_s and by_tenant:
        reason = "must be left out with by_tenant; set agent.build_failure_half_life_s instead"
        raise ValueError(f"decay_s: {reason}")

    def bind(hosts: HostTable, query: Query) -> BoundMeasure:
        if by_tenant:
            return BoundMeasure((hosts.failure_level,))
        if not decay_s:
            return BoundMeasure((hosts.failed_builds,))
        now_s = query.now_s

        def faded(ops: Arithmetic, failures: Value, failed_at_s: Value) -> Value:
            left = ops.greatest(1.0 - (now_s - failed_at_s) / decay_s, 0.0)
            # Clocks differ, so the failure may lie in the future, where the factor would exceed 1.
            return failures * ops.least(left, 1.0)

        return BoundMeasure((hosts.failed_builds, hosts.failed_at_s), faded)

    failures = Rule(bind)
    return Weigher(
        name=NAME,
        raw=failures,
        reads=Reads(request=("now_s",) if decay_s else (), columns=("service",)),
        multiplier=-multiplier,
        multiplier_key="build_failure_weight_multiplier",
        is_penalty=True,
        share=failures.then(lambda ops, count: filled(ops, count, 1.0)),
    )
