"""InstanceTypeFilter: memory and disk are free, and extra specs equal the host's attributes.

This is Nova's filter of 2011. Every extra spec must equal the host's attribute of the same name as
text; a host without the attribute is removed. Free amounts are physical, without allocation ratios,
and in the flavor's units: the filter of 2011 compared MB and GB with bytes, so nearly every host
passed (nova-behaviour.md 1.2).
"""

from collections.abc import Iterator, Sequence

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.domain.compute.flavor import Flavor
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB
from berth.scheduling.rules.attributes import ROW_ATTRIBUTES, profile_value
from berth.scheduling.rules.quantities import DISK, MEMORY, Quantity, Shortfall
from berth.scheduling.rules.rule import Filter, Query, Reads, without
from berth.tables.columnar.bitsets import Mask, Rows, Selection, count_of
from berth.tables.columnar.class_columns import Ints
from berth.tables.host.hosts import HostTable

NAME = "InstanceTypeFilter"
_SPEC = "the extra spec "


def build() -> Filter:
    """Build the filter; it has no options."""
    return Filter(
        name=NAME,
        keep=_keep,
        why=_why,
        relax=_relax,
        reads=Reads(
            request=(
                "flavor.memory_mb",
                "flavor.root_gb",
                "flavor.ephemeral_gb",
                "flavor.extra_specs",
            ),
            columns=("host", "used", "instances"),
        ),
    )


def _demands(hosts: HostTable, query: Query, rows: Selection) -> Iterator[tuple[str, Mask]]:
    """Yield each demand as text, with the rows that meet it."""
    flavor = query.request.flavor
    for quantity, amount, what in _sizes(flavor):
        # A host without the class has 0 of it.
        yield f"{amount:,} {what}", _room(hosts, quantity, rows) >= amount
    for key, wanted in flavor.extra_specs.items():
        yield f"{_SPEC}{key}={wanted}", _equals(hosts, key, wanted, rows)


def _sizes(flavor: Flavor) -> Iterator[tuple[Quantity, int, str]]:
    """Yield the sizes that are compared with hosts: quantity, amount and unit, as text."""
    yield MEMORY, flavor.memory_mb, "MB of memory"
    yield DISK, flavor.root_gb + flavor.ephemeral_gb, "GB of disk"


def _room(hosts: HostTable, quantity: Quantity, rows: Selection) -> Ints:
    columns = hosts.resource(quantity.resource_class)
    if columns is None:
        return np.zeros(count_of(rows), dtype=np.int64)
    return columns.physical_free[rows]


def _equals(hosts: HostTable, key: str, wanted: str, rows: Selection) -> Mask:
    if key in ROW_ATTRIBUTES:
        values, places = np.unique(ROW_ATTRIBUTES[key](hosts)[rows], return_inverse=True)
        equal = np.array([str(value) == wanted for value in values.tolist()], dtype=np.bool_)
        found: Mask = equal[places]
        return found
    return hosts.profiles.mask(
        hosts.profile[rows],
        lambda profile: (
            (value := profile_value(profile, (key,))) is not None and str(value) == wanted
        ),
    )


def _keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
    kept = np.ones(count_of(rows), dtype=np.bool_)
    for _, meets in _demands(hosts, query, rows):
        kept &= meets
    return kept


def _why(hosts: HostTable, query: Query, row: int) -> str:
    here = np.array([row])
    unmet = [what for what, meets in _demands(hosts, query, here) if not meets[0]]
    return f"{'; '.join(unmet)} requested, {_free(hosts, row)}"


def _free(hosts: HostTable, row: int) -> str:
    free = {name: hosts.resource(name) for name in (MEMORY_MB, DISK_GB)}
    memory_mb, disk_gb = (
        0 if columns is None else columns.physical_free.item(row) for columns in free.values()
    )
    return f"{memory_mb:,} MB and {disk_gb:,} GB free"


def _relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
    demands, flavor = list(_demands(hosts, query, rows)), query.request.flavor
    # A relaxation is a single change, so it helps only hosts that fail no other demand.
    failed = np.sum([~meets for _, meets in demands], axis=0)
    sizes = {f"{amount:,} {what}": (one, amount) for one, amount, what in _sizes(flavor)}
    found: list[Relaxation] = []
    for what, meets in demands:
        winners = rows[~meets & (failed == 1)]
        if what in sizes:
            quantity, amount = sizes[what]
            room = _room(hosts, quantity, winners).astype(np.float64)
            short = Shortfall(NAME, quantity, amount, winners)
            found.extend(short.asking_for_less(hosts, room))
            continue
        # Dropping an extra spec is the same change for all filters, whatever its value.
        text = what.partition("=")[0]
        found.extend(without(NAME, text, text, hosts, winners))
    return found
