"""ExactCoreFilter, ExactRamFilter and ExactDiskFilter: the flavor requests exactly what is free.

These are Nova's filters for bare metal, where one instance takes a whole machine (nova-behaviour.md
2.6). The free amount is the physical total minus what is reserved and used, without allocation
ratios.
"""

from collections.abc import Sequence

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.scheduling.granular.group_fit import takes_from_root
from berth.scheduling.rules.quantities import CPUS, DISK, MEMORY, Quantity, Shortfall, say, say_free
from berth.scheduling.rules.rule import UNCOUNTED, UNLIMITED, Filter, Query, Reads, bound_by
from berth.tables.columnar.bitsets import Mask, Rows, Selection, count_of
from berth.tables.columnar.class_columns import Floats, Ints
from berth.tables.host.hosts import HostTable


def build_core() -> Filter:
    """Build ExactCoreFilter: the flavor's VCPUs equal the host's free VCPUs. It has no options."""
    return _exact_filter("ExactCoreFilter", CPUS)


def build_ram() -> Filter:
    """Build ExactRamFilter: the flavor's memory equals the free memory. It has no options."""
    return _exact_filter("ExactRamFilter", MEMORY)


def build_disk() -> Filter:
    """Build ExactDiskFilter: the flavor's disks equal the free disk space. It has no options."""
    return _exact_filter("ExactDiskFilter", DISK)


def _exact_filter(name: str, quantity: Quantity) -> Filter:
    """Build the filter for one quantity.

    A host with unknown CPUs (a total of 0) never passes the filter for CPUs, as in Nova.

    Args:
        name: the filter's name.
        quantity: the quantity of the flavor that is compared with the host.
    """

    def keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
        kept: Mask = _free(hosts, quantity, rows) == quantity.asked(query.request.flavor)
        if quantity is CPUS:
            # Without this condition, a flavor without VCPUs would fit a host that reports none.
            kept &= _has_some(hosts, quantity, rows)
        return kept

    def why(hosts: HostTable, query: Query, row: int) -> str:
        here = np.array([row])
        if quantity is CPUS and not _has_some(hosts, quantity, here)[0]:
            return f"it has no {quantity.resource_class}"
        asked = say(quantity.asked(query.request.flavor))
        free = _free(hosts, quantity, here).item(0)
        return f"{quantity.resource_class}: exactly {asked} requested, {say_free(free)}"

    def relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
        if quantity is CPUS:
            rows = rows[_has_some(hosts, quantity, rows)]
        short = Shortfall(name, quantity, quantity.asked(query.request.flavor), rows)
        free: Floats = _free(hosts, quantity, rows).astype(np.float64)
        return short.asking_for_exactly(hosts, free)

    def repeats(hosts: HostTable, query: Query, rows: Rows) -> Ints:
        # After one instance, the free amount no longer equals the requested one.
        count = 1 if query.needs.amounts.get(quantity.resource_class) else UNLIMITED
        return np.where(takes_from_root(hosts, query.needs, rows), count, UNCOUNTED)

    return Filter(
        name=name,
        keep=keep,
        why=why,
        relax=relax,
        reads=Reads(request=quantity.reads, columns=("used",)),
        bound=bound_by(repeats),
        repeats=repeats,
    )


def _free(hosts: HostTable, quantity: Quantity, rows: Selection) -> Ints:
    columns = hosts.resource(quantity.resource_class)
    if columns is None:
        return np.zeros(count_of(rows), dtype=np.int64)
    return columns.physical_free[rows]


def _has_some(hosts: HostTable, quantity: Quantity, rows: Selection) -> Mask:
    columns = hosts.resource(quantity.resource_class)
    if columns is None:
        return np.zeros(count_of(rows), dtype=np.bool_)
    some: Mask = columns.total[rows] > 0
    return some
