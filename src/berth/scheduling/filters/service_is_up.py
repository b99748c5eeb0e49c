"""ComputeFilter: the host's compute service is enabled and has sent a recent heartbeat."""

import math
from collections.abc import Sequence

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.scheduling.rules.rule import Filter, Query, Reads, example_names
from berth.tables.columnar.bitsets import Mask, Rows, Selection
from berth.tables.host.hosts import HostTable

NAME = "ComputeFilter"
# The engine evaluates the filter again this long before a verdict may change, so rounding cannot
# delay the change.
_ROUNDING_S = 0.001


def build(*, service_down_time_s: float = 60.0) -> Filter:
    """Build the filter (nova-behaviour.md 2.6, 5.5).

    Args:
        service_down_time_s: seconds without a heartbeat after which a service counts as down.

    Raises:
        ValueError: `service_down_time_s` is not above 0.
    """
    if service_down_time_s <= 0:
        raise ValueError(f"service_down_time_s: {service_down_time_s} must be above 0")

    def is_up(hosts: HostTable, query: Query, rows: Selection) -> Mask:
        # Clocks differ, so heartbeats may lie in the future; Nova also takes the absolute value.
        fresh = np.abs(query.now_s - hosts.last_seen_s[rows]) <= service_down_time_s
        up: Mask = fresh & ~hosts.forced_down[rows]
        return up

    def keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
        kept: Mask = is_up(hosts, query, rows) & hosts.enabled[rows]
        return kept

    def holds_until(hosts: HostTable, query: Query, rows: Selection) -> float:
        seen_s = hosts.last_seen_s[rows]
        turns_s = np.concatenate((seen_s - service_down_time_s, seen_s + service_down_time_s))
        # A change that was due less than `_ROUNDING_S` ago may not show in the verdict yet.
        later = turns_s[turns_s >= query.now_s - _ROUNDING_S]
        return float(later.min(initial=math.inf)) - _ROUNDING_S

    def why(hosts: HostTable, query: Query, row: int) -> str:
        service = hosts.services.get(hosts.name(row))
        if service is None:
            return "it has no compute service"
        if service.disabled:
            return f"its service is disabled ({service.disabled_reason or 'no reason given'})"
        if service.forced_down:
            return "its service was forced down"
        silent_s = query.now_s - float(hosts.last_seen_s[row])
        return f"its last heartbeat was {silent_s:,.0f} s ago"

    def relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
        up, enabled = is_up(hosts, query, rows), hosts.enabled[rows]
        return [
            *_more("enabled", hosts, rows[up]),
            *_more("up", hosts, rows[enabled]),
            *_more("enabled and up", hosts, rows[~up & ~enabled]),
        ]

    return Filter(
        name=NAME,
        keep=keep,
        why=why,
        relax=relax,
        reads=Reads(request=("now_s",), columns=("service", "seen")),
        once_per_request=True,
        holds_until=holds_until,
        options={"service_down_time_s": service_down_time_s},
    )


def _more(state: str, hosts: HostTable, rows: Rows) -> list[Relaxation]:
    if not rows.size:
        return []
    plural = "service" if rows.size == 1 else "services"
    return [
        Relaxation(
            filter=NAME,
            subject="service",
            text=f"{rows.size:,} more compute {plural} {state}",
            hosts=int(rows.size),
            examples=example_names(hosts, rows),
            uncounted=f"more compute services {state}",
        )
    ]
