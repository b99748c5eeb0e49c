"""Ceilings: a host takes no more once it has so many of something (nova-behaviour.md 2.6)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.scheduling.rules.quantities import say
from berth.scheduling.rules.rule import Filter, Query, Reads, count_hosts, example_names
from berth.tables.columnar.bitsets import Mask, Rows, Selection, count_of
from berth.tables.columnar.class_columns import Floats, SmallInts
from berth.tables.host.hosts import HostTable


@dataclass(frozen=True, slots=True)
class Counted:
    """What is counted on a host.

    Args:
        key: the option that limits it, which is also the key of aggregate metadata.
        on: (hosts) -> (N,) how many each row has.
        has: how to say that a host has some, before the number.
        limit_min: the least limit that makes sense.
    """

    key: str
    on: Callable[[HostTable], SmallInts]
    has: str
    limit_min: int


BUILDS = Counted("max_io_ops_per_host", lambda hosts: hosts.num_io_ops, "it is building", 0)
INSTANCES = Counted("max_instances_per_host", lambda hosts: hosts.num_instances, "it has", 1)


def ceiling_filter(
    name: str, counted: Counted, limit: int, *, by_aggregate: bool = False
) -> Filter:
    """Make a filter that keeps hosts with fewer than the limit.

    Args:
        name: the filter's.
        counted: what is counted; instances that this process has placed and the ledger has not
            told yet count too.
        limit: the option.
        by_aggregate: take the least number that the host's aggregates give, where there is one.

    Raises:
        ValueError: a limit that makes no sense.
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
        # The next whole number above what is missing, since a host must stay below its limit.
        raises = np.floor(counted.on(hosts)[rows] - limits(hosts, rows)) + 1
        least = raises.min()
        winners = rows[raises == least]
        return [
            Relaxation(
                filter=name,
                subject=counted.key,
                text=f"{counted.key} raised by {say(float(least))}: {count_hosts(winners.size)}",
                hosts=int(winners.size),
                change=math.floor(least),
                examples=example_names(hosts, winners),
            )
        ]

    return Filter(
        name=name,
        keep=keep,
        why=why,
        relax=relax,
        reads=Reads(
            request=(),
            columns=("instances", "aggregates") if by_aggregate else ("instances",),
        ),
        options={counted.key: limit},
    )
