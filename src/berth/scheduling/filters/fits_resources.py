"""ResourcesFilter: the host has room for one instance in every requested resource class.

On a host with child providers, any of them may provide a class that the root cannot. The filter
applies allocation ratios and reserved amounts, and no single instance may get more than the host
physically has (no self-overcommit, nova-behaviour.md 3). It replaces Nova's Core, Ram and Disk
filters and Placement's capacity check. It must be in every policy, because the ledger rejects
claims on the hosts that it removes.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU
from berth.scheduling.granular.group_fit import assign, repeats
from berth.scheduling.hardware.unsuffixed_fit import fits, most, why_not
from berth.scheduling.rules.rule import (
    Filter,
    Limit,
    Query,
    Reads,
    Scores,
    count_hosts,
    example_names,
)
from berth.tables.columnar.bitsets import Mask, Rows, Selection
from berth.tables.columnar.class_columns import Ints
from berth.tables.host.hosts import HostTable

NAME = "ResourcesFilter"

_LESS: Mapping[str, str] = {MEMORY_MB: "MB less memory", DISK_GB: "GB less disk"}
_WITHOUT: Mapping[str, str] = {DISK_GB: "disk"}

# Flavors have at least one VCPU and one MB of memory, so these cannot be dropped.
_AT_LEAST_ONE = frozenset({VCPU, MEMORY_MB})
_SIZED = frozenset({VCPU, MEMORY_MB, DISK_GB})


def build() -> Filter:
    """Build the filter; it has no options."""
    return Filter(
        name=NAME,
        keep=_keep,
        why=_why,
        relax=_relax,
        reads=Reads(request=("needs.amounts",), columns=("used",)),
        # The ledger also checks claims on forced hosts, and rejects those that do not fit.
        on_forced=True,
        limits=_limits,
        bound=_bound,
        assign=assign,
        repeats=repeats,
    )


def _keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
    kept: Mask | None = None
    for name, amount in query.needs.amounts.items():
        verdict = fits(hosts, name, amount, rows)
        kept = verdict if kept is None else kept & verdict
    return kept


def _bound(hosts: HostTable, query: Query) -> Scores | None:
    """See `Bound`; hosts with child providers have none, as these may supply the amounts."""
    bound = np.full(len(hosts), np.inf)
    for name, amount in query.needs.amounts.items():
        columns = hosts.resource(name)
        if columns is not None:
            np.minimum(bound, columns.free[hosts.all_rows] // amount, out=bound)
    if len(hosts.trees):
        bound[hosts.trees.branches(hosts.all_rows).owners] = np.inf
    return bound


def _limits(hosts: HostTable, query: Query) -> list[Limit] | None:
    """See `Limits`; steps of allocations and child providers cannot be expressed as limits."""
    found: list[Limit] = []
    below = hosts.trees.resource if len(hosts.trees) else None
    for name, amount in query.needs.amounts.items():
        columns = hosts.resource(name)
        if columns is None or columns.stepped or (below is not None and below(name) is not None):
            return None
        found.append((columns.room, amount))
    return found


def _why(hosts: HostTable, query: Query, row: int) -> str:
    amounts = query.needs.amounts
    reasons = (why_not(hosts, name, amount, row) for name, amount in amounts.items())
    return "; ".join(reason for reason in reasons if reason)


def _relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
    amounts = query.needs.amounts
    room = {name: most(hosts, name, amount, rows) for name, amount in amounts.items()}
    short = np.sum([room[name] < amount for name, amount in amounts.items()], axis=0)
    found: list[Relaxation] = []
    for name, amount in amounts.items():
        alone = (room[name] < amount) & (short == 1)
        found.extend(_less_of(hosts, query, name, rows[alone], room[name][alone]))
    return found or _less_of_several(hosts, query, rows, room)


def _less_of(hosts: HostTable, query: Query, name: str, rows: Rows, room: Ints) -> list[Relaxation]:
    """Return the smallest reduction of one class that fits on one of the rows; empty without rows.

    The rows are hosts that lack only this class.
    """
    if not rows.size:
        return []
    best, amount = int(room.max()), query.needs.amounts[name]
    if not best and name in _AT_LEAST_ONE:
        return []
    text = f"{_change(query, name, best)}: {{hosts}}"
    return [_relaxation(hosts, name, text, rows[room == best], change=best - amount)]


def _less_of_several(
    hosts: HostTable, query: Query, rows: Rows, room: Mapping[str, Ints]
) -> list[Relaxation]:
    """Return the reductions that make the nearest host fit, when every host lacks several classes.

    The nearest host has the least sum of missing shares of the requested amounts, because amounts
    of different classes cannot be added.
    """
    amounts = query.needs.amounts
    possible = np.ones(rows.size, dtype=np.bool_)
    for name in _AT_LEAST_ONE.intersection(amounts):
        possible &= room[name] > 0
    if not possible.any():
        return []
    rows, room = rows[possible], {name: found[possible] for name, found in room.items()}
    missing = np.sum([(amounts[name] - room[name]) / amounts[name] for name in amounts], axis=0)
    near = np.flatnonzero(missing == missing.min())
    nearest = int(near[hosts.rank[rows[near]].argmin()])
    less = {name: int(room[name][nearest]) for name in amounts}
    changed = [name for name in amounts if less[name] < amounts[name]]
    winners = np.ones(len(hosts), dtype=np.bool_)
    for name in amounts:
        if less[name]:
            winners &= fits(hosts, name, less[name], hosts.all_rows)
    won = rows[winners[rows]]
    parts = [
        _relaxation(
            hosts,
            name,
            f"{_change(query, name, less[name])}: {{hosts}}",
            won,
            change=less[name] - amounts[name],
        )
        for name in changed
    ]
    return [
        Relaxation(
            filter=NAME,
            subject=", ".join(changed),
            text=f"{' and '.join(part.what for part in parts)}: {count_hosts(won.size)}",
            hosts=int(won.size),
            examples=example_names(hosts, won),
            parts=tuple(parts),
        )
    ]


def _change(query: Query, name: str, fits: int) -> str:
    """Return the change of one amount of the request, as text."""
    key, less = f"resources:{name}", query.needs.amounts[name] - fits
    is_extra = key in query.request.flavor.extra_specs
    # The extra spec replaces the size of the flavor, which is another amount.
    if is_extra and name in _SIZED:
        return f"{less:,} less in the extra spec {key}"
    if not fits:
        return f"without {_WITHOUT.get(name, name)}"
    return f"{less:,} {_LESS.get(name, f'{name} less')}"


def _relaxation(
    hosts: HostTable, subject: str, text: str, rows: Rows, change: int | None = None
) -> Relaxation:
    return Relaxation(
        filter=NAME,
        subject=subject,
        text=text.format(hosts=count_hosts(rows.size)),
        hosts=int(rows.size),
        change=change,
        examples=example_names(hosts, rows),
    )
