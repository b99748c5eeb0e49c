"""MetricsWeigher: the weighted sum of the metrics that hosts report.

The share is (1 + value / (|value| + scale)) / 2: 1/2 for a sum of 0, and between 0 and 1 for any
other. It is 0 for a host that does not report every metric.
"""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from berth.scheduling.rules.measure import BoundMeasure, Computed, Rule, check_scale, tilted
from berth.scheduling.rules.rule import Query, Reads, Scores, Weigher
from berth.tables.columnar.bitsets import Mask, Selection, count_of
from berth.tables.host.hosts import HostTable

NAME = "MetricsWeigher"
_KEY = "metrics_weight_multiplier"

_NONE: Mapping[str, float] = MappingProxyType({})


def build(
    *,
    multiplier: float = 1.0,
    weight_setting: Mapping[str, float] = _NONE,
    weight_of_unavailable: float = -10_000.0,
    scale: float = 1.0,
) -> Weigher:
    """Build the weigher (nova-behaviour.md 2.7): the sum of metric x ratio.

    A host that lacks a metric is never an error, unlike in Nova with its option `required`;
    MetricsFilter removes such hosts. As in Nova, a host gets no penalty for a missing metric if
    its aggregates turn the weigher off.

    Args:
        multiplier: the weight of the sum, relative to the other weighers.
        weight_setting: the ratio of each metric; a ratio of 0 leaves the metric out.
        weight_of_unavailable: the value of a host that does not report every metric.
        scale: the sum at which the share is 3/4, in the unit of the metrics.

    Raises:
        ValueError: `scale` is not above 0.
    """
    check_scale(scale)
    ratios = {name: ratio for name, ratio in weight_setting.items() if ratio}

    def value(hosts: HostTable, rows: Selection) -> Scores:
        total, lacks = _summed(hosts, rows, ratios)
        # A multiplier of 0 turns the weigher off, and the penalty with it.
        given = hosts.memberships.least_of(_KEY, rows)
        if given is None:
            lacks &= multiplier != 0
        else:
            lacks &= np.where(np.isnan(given), multiplier, given) != 0
        return np.where(lacks, weight_of_unavailable, total)

    def share(hosts: HostTable, rows: Selection) -> Scores:
        total, lacks = _summed(hosts, rows, ratios)
        return np.where(lacks, 0.0, tilted(total, scale))

    def bind(hosts: HostTable, query: Query) -> BoundMeasure:
        return BoundMeasure((Computed(lambda rows: value(hosts, rows)),))

    def bind_share(hosts: HostTable, query: Query) -> BoundMeasure:
        return BoundMeasure((Computed(lambda rows: share(hosts, rows)),))

    return Weigher(
        name=NAME,
        raw=Rule(bind) if ratios else _nothing,
        reads=Reads(request=(), columns=("host", "aggregates")),
        multiplier=multiplier,
        multiplier_key=_KEY,
        share=Rule(bind_share) if ratios else _nothing,
    )


def _summed(hosts: HostTable, rows: Selection, ratios: Mapping[str, float]) -> tuple[Scores, Mask]:
    """Return the weighted sum of each row, and whether the row lacks a metric."""
    total = np.zeros(count_of(rows), dtype=np.float64)
    lacks = np.zeros(total.size, dtype=np.bool_)
    for name, ratio in ratios.items():
        values = hosts.metrics.values(name, rows)
        unknown = np.isnan(values)
        total += ratio * np.where(unknown, 0.0, values)
        lacks |= unknown
    return total, lacks


def _nothing(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
    """Return None, which means that the weigher never applies: no metric has a ratio."""
    return None
