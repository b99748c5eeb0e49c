"""Warnings about weighers whose values on a fleet are not finite, or not shares in [0, 1]."""

from collections.abc import Iterator, Sequence

import numpy as np

from berth.scheduling.evaluation.policy import Policy
from berth.scheduling.evaluation.weighing import values_of
from berth.scheduling.lint.lint_warning import LintWarning
from berth.scheduling.rules.rule import Normalisation, Query, Scores, count_hosts
from berth.tables.host.hosts import HostTable

# Shares are quotients, so rounding may carry them past their bounds by this much.
_ROUNDING = 1e-9


def lint_values(
    policy: Policy, hosts: HostTable, queries: Sequence[Query]
) -> Iterator[LintWarning]:
    """Yield a warning for each weigher with invalid values, with the first flavor that has them.

    Args:
        policy: the policy with the weighers and the normalisation.
        hosts: the fleet; every host is weighed, even if filters would remove it.
        queries: the queries, one for each flavor.
    """
    rows = hosts.alive_rows()
    for weigher in policy.weighers if rows.size else ():
        for query in queries:
            values = values_of(weigher, policy.normalisation, hosts, query, rows)
            reason = "" if values is None else _reason(values, policy.normalisation)
            if reason:
                text = f"{reason} for flavor {query.request.flavor.name}; correct the plugin"
                yield LintWarning(f"weigher {weigher.name}", text)
                break


def _reason(values: Scores, normalisation: Normalisation) -> str:
    """Return the fault in values, as text; empty if they are valid."""
    odd = values[~np.isfinite(values)]
    if odd.size:
        return f"returns {odd[0]} on {count_hosts(odd.size)}"
    outside = values[(values < -_ROUNDING) | (values > 1 + _ROUNDING)]
    if normalisation is Normalisation.SHARE and outside.size:
        return f"returns {outside[0]:g}, not a share in [0, 1], on {count_hosts(outside.size)}"
    return ""
