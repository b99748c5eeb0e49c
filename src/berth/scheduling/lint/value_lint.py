"""Value linting: weighers of plugins that give on a fleet what is no share, or no number."""

from collections.abc import Iterator, Sequence

import numpy as np

from berth.scheduling.evaluation.policy import Policy
from berth.scheduling.evaluation.weighing import values_of
from berth.scheduling.lint.lint_warning import Finding
from berth.scheduling.rules.rule import Normalisation, Query, Scores, count_hosts
from berth.tables.host.hosts import HostTable

_ROUNDING = 1e-9


def lint_values(policy: Policy, hosts: HostTable, queries: Sequence[Query]) -> Iterator[Finding]:
    """Tell of weighers whose values are not what they have to be; of each the first time only.

    Args:
        policy: whose weighers are asked, by its normalisation.
        hosts: the fleet, all of which they are asked about.
        queries: what is asked for, one for each flavor.
    """
    rows = hosts.alive_rows()
    for weigher in policy.weighers if rows.size else ():
        for query in queries:
            values = values_of(weigher, policy.normalisation, hosts, query, rows)
            reason = "" if values is None else _reason(values, policy.normalisation)
            if reason:
                text = f"{reason} for flavor {query.request.flavor.name}; a fault of the plugin"
                yield Finding(f"weigher {weigher.name}", text)
                break


def _reason(values: Scores, normalisation: Normalisation) -> str:
    """Say what is wrong with values; nothing when they are as they should be."""
    odd = values[~np.isfinite(values)]
    if odd.size:
        return f"gives {odd[0]} on {count_hosts(odd.size)}"
    outside = values[(values < -_ROUNDING) | (values > 1 + _ROUNDING)]
    if normalisation is Normalisation.SHARE and outside.size:
        return f"gives {outside[0]:g}, no share between 0 and 1, on {count_hosts(outside.size)}"
    return ""
