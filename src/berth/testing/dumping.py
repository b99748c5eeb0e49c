"""Dumps of a host table, for tests that compare the contents of two tables."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from berth.tables.columnar.class_columns import ClassColumns
from berth.tables.columnar.schema import CLASS_COLUMNS, HOST_COLUMNS, Column
from berth.tables.host.hosts import HostTable
from berth.tables.host.occupants import Occupant


def dump(hosts: HostTable) -> dict[str, object]:
    """Return all values of a table that rules can read, by host uuid, whatever the row order.

    Resource classes without capacity or usage are left out, so that a table that once had them
    equals one that never did.
    """
    plain = _Plain(
        _plain(hosts, HOST_COLUMNS),
        _classes(hosts.resource_classes, hosts.resource),
        _classes(hosts.trees.resource_classes, hosts.trees.resource),
    )
    by_host: dict[str, object] = {
        hosts.host(row).uuid: _dump_row(hosts, plain, row) for row in hosts.alive_rows().tolist()
    }
    aggregates = dict(sorted(hosts.aggregates.items()))
    groups = dict(sorted(hosts.server_groups.items()))
    return {"hosts": by_host, "aggregates": aggregates, "server_groups": groups}


class _Plain(NamedTuple):
    """Columns as lists of plain numbers, since reading NumPy arrays row by row dominates a dump.

    Attributes:
        hosts: values by column and row.
        classes: values by resource class, column and row.
        children: values by resource class, column and slot.
    """

    hosts: dict[str, list[Any]]
    classes: dict[str, dict[str, list[Any]]]
    children: dict[str, dict[str, list[Any]]]


def _plain(columns: object, schema: Iterable[Column]) -> dict[str, list[Any]]:
    return {column.name: getattr(columns, column.name)[:].tolist() for column in schema}


def _classes(
    names: Iterable[str], resource: Callable[[str], ClassColumns | None]
) -> dict[str, dict[str, list[Any]]]:
    found: dict[str, dict[str, list[Any]]] = {}
    for name in sorted(names):
        columns = resource(name)
        if columns is not None:
            values = found[name] = _plain(columns, CLASS_COLUMNS)
            values["stepped"] = [row in columns.stepped for row in range(columns.rows)]
            del values["terms"]  # An index private to this table; other columns have the values.
    return found


def _dump_row(hosts: HostTable, plain: _Plain, row: int) -> dict[str, object]:
    columns = {name: values[row] for name, values in plain.hosts.items()}
    del columns["ratios"]  # An index private to this table; the host's record has the ratios.
    columns["profile"] = hosts.profiles.all[columns["profile"]]
    columns["cell"] = hosts.in_cell(hosts.host(row).cell, np.array([row])).item()
    uuids = sorted(hosts.occupants.on_row(row))
    occupants = [hosts.occupants.by_uuid.get(uuid) for uuid in uuids]
    return {
        "host": hosts.host(row),
        "service": hosts.services.get(hosts.host(row).name),
        **columns,
        "classes": {
            name: {column: values[row] for column, values in one.items()}
            for name, one in plain.classes.items()
            if one["ratio"][row] or one["used"][row]
        },
        "traits": hosts.traits.get(row),
        "children": [_dump_child(hosts, plain, slot) for slot in hosts.trees.on_row(row)],
        "child_traits": [hosts.trees.traits.get(slot) for slot in hosts.trees.on_row(row)],
        "zones": hosts.zones.get(row),
        "metrics": {
            name: hosts.metrics.values(name, np.array([row])).item()
            for name in hosts.host(row).metrics
        },
        "numa": hosts.numa.cells(row),
        "pci": [(pool.key, pool.free) for pool in hosts.pci.pools(row)],
        "attested_until_s": hosts.attestations.until_s(np.array([row])).item(),
        "aggregates": hosts.memberships.by_row.get(row),
        "occupants": [one.resident for one in occupants if one],
        "attributes": [hosts.occupants.attributes(uuid) for uuid in uuids],
        "groups": {
            group: members[row]
            for group in {one.group_uuid for one in occupants if one}
            if group is not None and (members := hosts.occupants.groups.rows(group))
        },
        "images": {
            item: hosts.occupants.images(frozenset()).count(*item, np.array([row])).item()
            for item in {item for one in occupants if one for item in _image(one)}
        },
        "flavors": {
            flavor_id: hosts.occupants.flavor_rows(flavor_id).get(row, 0)
            for flavor_id in {one.resident.flavor_id for one in occupants if one}
        },
    }


def _image(occupant: Occupant) -> Iterable[tuple[str, str]]:
    return occupant.resident.image_properties.items()


def _dump_child(hosts: HostTable, plain: _Plain, slot: int) -> dict[str, object]:
    trees = hosts.trees
    provider = trees.provider(slot)
    names = sorted(provider.inventories.keys() | trees.used(slot).keys())
    return {
        "uuid": provider.uuid,
        "name": provider.name,
        "parent": provider.parent_uuid,
        "used": trees.used(slot),
        "classes": {
            name: {column: values[slot] for column, values in plain.children[name].items()}
            for name in names
            if name in plain.children
        },
    }
