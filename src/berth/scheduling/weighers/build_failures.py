"""BuildFailureWeigher: how much builds that failed there speak against a host.

Its share is failures / (failures + 1): 0 for a host in good order, 1/2 after one failure.
"""

import numpy as np

from berth.scheduling.rules.rule import Query, Reads, Scores, Weigher
from berth.scheduling.rules.shares import filled
from berth.tables.columnar.bitsets import Selection
from berth.tables.host.hosts import HostTable

NAME = "BuildFailureWeigher"


def build(
    *, multiplier: float = 1_000_000.0, decay_s: float = 0.0, by_tenant: bool = False
) -> Weigher:
    """Make the weigher (nova-behaviour.md 2.7, 5.2).

    Values are normalised, so under the default multiplier one failure outweighs everything
    else; about 1 sets it against free memory. Nova's count takes each failure since a build last
    succeeded, whoever asked for it, so one bad image can mark many hosts; with `decay_s` they
    recover without a success. `by_tenant` reads what the host's agent makes of failures by cause
    and tenant, which fades by itself (`domain.build_failure`).

    Args:
        multiplier: how much failures count against a host; it is negated.
        decay_s: seconds in which Nova's count falls to 0 after the newest failure, evenly; 0
            keeps it until a build succeeds, as Nova does.
        by_tenant: read the level of failures by cause and tenant, in place of Nova's count.

    Raises:
        ValueError: `decay_s` is below 0, or is given with `by_tenant`.
    """
    if decay_s < 0:
        raise ValueError(f"decay_s: {decay_s} must be 0 (never) or above")
    if decay_s and by_tenant:
        reason = "leave it out with by_tenant, whose counts fade by agent.build_failure_half_life_s"
        raise ValueError(f"decay_s: {reason}")

    def raw(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
        if by_tenant:
            return hosts.failure_level[rows].astype(np.float64)
        failures = hosts.failed_builds[rows].astype(np.float64)
        if not decay_s:
            return failures
        age_s = query.now_s - hosts.failed_at_s[rows]
        left: Scores = failures * np.clip(1.0 - age_s / decay_s, 0.0, 1.0)
        return left

    def share(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
        failures = raw(hosts, query, rows)
        return None if failures is None else filled(failures, 1.0)

    return Weigher(
        name=NAME,
        raw=raw,
        reads=Reads(request=("now_s",) if decay_s else (), columns=("service",)),
        multiplier=-multiplier,
        multiplier_key="build_failure_weight_multiplier",
        is_penalty=True,
        share=share,
    )
