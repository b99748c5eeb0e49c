"""MetricsFilter: the host reports every metric that the option `weight_setting` names."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.scheduling.rules.rule import Filter, Query, Reads, without
from berth.tables.columnar.bitsets import Mask, Rows, Selection, count_of
from berth.tables.host.hosts import HostTable

NAME = "MetricsFilter"

_NONE: Mapping[str, float] = MappingProxyType({})
# A reason names at most this many of the reported metrics, so that it fits on one line.
_NAMED_MAX = 10


def build(*, weight_setting: Mapping[str, float] = _NONE) -> Filter:
    """Build the filter (nova-behaviour.md 2.6).

    Args:
        weight_setting: the option of MetricsWeigher, which gives the ratio of each metric. The
            filter reads only the names; if there are none, every host passes.
    """
    names = tuple(sorted(weight_setting))

    def keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
        if not names:
            return None
        kept = np.ones(count_of(rows), dtype=np.bool_)
        for name in names:
            kept &= ~np.isnan(hosts.metrics.values(name, rows))
        return kept

    def missing(hosts: HostTable, row: int) -> list[str]:
        return [name for name in names if name not in hosts.metrics.reported(row)]

    def why(hosts: HostTable, query: Query, row: int) -> str:
        reported = ", ".join(sorted(hosts.metrics.reported(row))[:_NAMED_MAX]) or "nothing"
        return f"it does not report {', '.join(missing(hosts, row))}; it reports {reported}"

    def relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
        return without(NAME, "weight_setting", f"the metrics {', '.join(names)}", hosts, rows)

    return Filter(
        name=NAME,
        keep=keep,
        why=why,
        relax=relax,
        reads=Reads(request=(), columns=("host",)),
        once_per_request=True,
        options={"weight_setting": names},
    )
