"""IoOpsFilter, NumInstancesFilter and their Aggregate variants: limits on a host's instances.

A host with as many instances as the limit takes no further instance (nova-behaviour.md 2.6).
NumInstances counts all instances. IoOps counts only incoming moves and instances with a task that
loads the host's disks (`LOADING_TASKS`: building, rebuilding, resizing and unshelving). The
Aggregate variants take the limit from the metadata of the host's aggregates.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.scheduling.rules.quantities import say
from berth.scheduling.rules.rule import (
    Filter,
    Query,
    Reads,
    bound_by,
    count_hosts,
    example_names,
    unlimited,
)
from berth.tables.columnar.bitsets import Mask, Rows, Selection, count_of
from berth.tables.columnar.class_columns import Floats, Ints, SmallInts
from berth.tables.host.hosts import HostTable

# No host has this many instances, and larger floats do not fit into the integers of counts.
_ENDLESS = 2.0**62


def build_io_ops(*, max_io_ops_per_host: int = 8) -> Filter:
    """Build IoOpsFilter: fewer instances than the limit load the host's disks.

    Args:
        max_io_ops_per_host: the maximum number of instances that may put load on a host's disks
            simultaneously.

    Raises:
        ValueError: the limit is below 0.
    """
    return _limit_filter("IoOpsFilter", _BUILDS, max_io_ops_per_host)


def build_aggregate_io_ops(*, max_io_ops_per_host: int = 8) -> Filter:
    """Build AggregateIoOpsFilter: a host's aggregates set the limit with `max_io_ops_per_host`.

    The lowest value among the aggregates applies.

    Args:
        max_io_ops_per_host: the limit for hosts whose aggregates set none.

    Raises:
        ValueError: the limit is below 0.
    """
    return _limit_filter("AggregateIoOpsFilter", _BUILDS, max_io_ops_per_host, by_aggregate=True)


def build_num_instances(*, max_instances_per_host: int = 50) -> Filter:
    """Build NumInstancesFilter: the host has fewer instances than the limit.

    Args:
        max_instances_per_host: the maximum number of instances on a host.

    Raises:
        ValueError: the limit is below 1.
    """
    return _limit_filter("NumInstancesFilter", _INSTANCES, max_instances_per_host)


def build_aggregate_num_instances(*, max_instances_per_host: int = 50) -> Filter:
    """Build AggregateNumInstancesFilter: aggregates set the limit with `max_instances_per_host`.

    The lowest value among the host's aggregates applies.

    Args:
        max_instances_per_host: the limit for hosts whose aggregates set none.

    Raises:
        ValueError: the limit is below 1.
    """
    name, limit = "AggregateNumInstancesFilter", max_instances_per_host
    return _limit_filter(name, _INSTANCES, limit, by_aggregate=True)


@dataclass(frozen=True, slots=True)
class _Counted:
    """The count that a limit applies to.

    Args:
        key: the name of the option, which is also the key of aggregate metadata.
        on: (hosts) -> (N,) the count on each row.
        has: the text before the count in a reason.
        limit_min: the lowest accepted limit.
    """

    key: str
    on: Callable[[HostTable], SmallInts]
    has: str
    limit_min: int


_BUILDS = _Counted(
    "max_io_ops_per_host", lambda hosts: hosts.num_io_ops, "its disks are loaded by", 0
)
_INSTANCES = _Counted("max_instances_per_host", lambda hosts: hosts.num_instances, "it has", 1)


def _limit_filter(
    name: str, counted: _Counted, limit: int, *, by_aggregate: bool = False
) -> Filter:
    """Build a filter that keeps hosts whose count is below the limit.

    Args:
        name: the filter's name.
        counted: the count. Instances that this process has placed are included immediately, before
            the ledger's change feed reports them.
        limit: the value of the option.
        by_aggregate: take the lowest limit that the host's aggregates set, if any.

    Raises:
        ValueError: the limit is below `counted.limit_min`.
    """
    if limit < counted.limit_min:
        raise ValueError(f"{counted.key}: {limit} must be at least {counted.limit_min}")

    def limits(hosts: HostTable, rows: Selection) -> Floats:
        own = np.full(count_of(rows), float(limit))
        least = hosts.memberships.least_of(counted.key, rows) if by_aggregate else None
        return own if least is None else np.where(np.isnan(least), own, least)

    def keep(hosts: HostTable, _query: Query, rows: Selection) -> Mask | None:
        kept: Mask = counted.on(hosts)[rows] < limits(hosts, rows)
        return kept

    def why(hosts: HostTable, _query: Query, row: int) -> str:
        count = counted.on(hosts)[row]
        noun = "instance" if count == 1 else "instances"
        giver = hosts.memberships.least_at(counted.key, row) if by_aggregate else None
        where = "" if giver is None else f" in aggregate {giver.name}"
        is_limit = say(float(limits(hosts, np.array([row]))[0]))
        return f"{counted.has} {count:,} {noun}, and {counted.key} is {is_limit}{where}"

    def relax(hosts: HostTable, _query: Query, rows: Rows) -> Sequence[Relaxation]:
        # A host passes only below its limit, so its limit must rise by more than the gap.
        raises = np.floor(counted.on(hosts)[rows] - limits(hosts, rows)) + 1
        return _raised(name, counted.key, hosts, rows, raises)

    def repeats(hosts: HostTable, query: Query, rows: Rows) -> Ints:
        left = np.ceil(limits(hosts, rows) - counted.on(hosts)[rows])
        counts = unlimited(hosts, query, rows)
        counts[left < _ENDLESS] = left[left < _ENDLESS]
        return counts

    return Filter(
        name=name,
        keep=keep,
        why=why,
        relax=relax,
        reads=Reads((), ("instances", "aggregates") if by_aggregate else ("instances",)),
        bound=bound_by(repeats),
        repeats=repeats,
        options={counted.key: limit},
    )


def _raised(name: str, key: str, hosts: HostTable, rows: Rows, raises: Floats) -> list[Relaxation]:
    """Return the smallest of the raises of a limit that would let one of the rows pass."""
    least = float(raises.min())
    winners = rows[raises == least]
    return [
        Relaxation(
            filter=name,
            subject=key,
            text=f"{key} raised by {say(least)}: {count_hosts(winners.size)}",
            hosts=int(winners.size),
            change=math.floor(least),
            examples=example_names(hosts, winners),
        )
    ]
