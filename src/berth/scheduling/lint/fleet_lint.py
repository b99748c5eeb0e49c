"""Warnings about a fleet: metadata of its aggregates, and the values that weighers give its hosts.

Text that is not a number is ignored when hosts are filtered and weighed (nova-behaviour.md 2.4,
2.6, 3), so a typo in metadata would go unnoticed without a warning.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.ratios import ratio_key
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU
from berth.scheduling.evaluation.policy import Policy
from berth.scheduling.evaluation.weighing import values_of
from berth.scheduling.lint.lint_warning import LintWarning
from berth.scheduling.rules.operators import number_of
from berth.scheduling.rules.rule import Normalisation, Query, Scores, count_hosts
from berth.tables.host.hosts import HostTable

_RATIOS: Final = frozenset(map(ratio_key, (VCPU, MEMORY_MB, DISK_GB)))
_LIMITS: Final = frozenset({"max_io_ops_per_host", "max_instances_per_host"})
OVERRULES: Final = 100.0
"""With this many times the weight of all lesser weighers, a weigher lets them only break ties."""


def lint_aggregates(aggregates: Iterable[Aggregate], policy: Policy) -> Iterator[LintWarning]:
    """Yield a warning for each questionable number in the metadata of aggregates.

    Args:
        aggregates: the aggregates of the fleet.
        policy: the policy with the weighers whose multipliers aggregates may override.
    """
    usual = {one.multiplier_key: abs(one.multiplier) for one in policy.weighers}
    for aggregate in aggregates:
        for key, text in sorted(aggregate.metadata.items()):
            reason = _reason(key, text, is_multiplier=bool(key) and key in usual)
            if not reason and key and key in usual:
                others = (by for other, by in usual.items() if other != key and by < OVERRULES)
                reason = _overruling(number_of(text) or 0.0, sum(others))
            if reason:
                yield LintWarning(f"aggregate {aggregate.name}", f"{key} = {text!r} {reason}")


def _reason(key: str, text: str, *, is_multiplier: bool) -> str:
    """Return why a metadata value is ignored; empty if it is valid or need not be a number."""
    number = number_of(text)
    # An empty ratio or 0 means that the host's own ratio applies, so neither is a mistake.
    if key in _RATIOS and text.strip() not in {"", "0"} and (number is None or number <= 0):
        return "is not a number above 0 and is ignored; correct it, or write 0 for the host's own"
    if (is_multiplier or key in _LIMITS) and number is None:
        return "is not a number and is ignored; correct it"
    return ""


def _overruling(multiplier: float, others: float) -> str:
    """Return a warning that a multiplier outweighs all others together; empty if it does not."""
    if abs(multiplier) < OVERRULES * max(others, 1.0):
        return ""
    return (
        f"outweighs all other weighers, which have the weight {others:,g} together: values are "
        "scaled to between 0 and 1, so on its hosts the others decide only ties; lower it"
    )


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
            reason = "" if values is None else _value_fault(values, policy.normalisation)
            if reason:
                text = f"{reason} for flavor {query.request.flavor.name}; correct the plugin"
                yield LintWarning(f"weigher {weigher.name}", text)
                break


def _value_fault(values: Scores, normalisation: Normalisation) -> str:
    """Return the fault in values, as text; empty if they are valid."""
    odd = values[~np.isfinite(values)]
    if odd.size:
        return f"returns {odd[0]} on {count_hosts(odd.size)}"
    outside = values[(values < -_ROUNDING) | (values > 1 + _ROUNDING)]
    if normalisation is Normalisation.SHARE and outside.size:
        return f"returns {outside[0]:g}, not a share in [0, 1], on {count_hosts(outside.size)}"
    return ""
