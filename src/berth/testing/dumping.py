"""Dumps of a host table, for tests that compare the contents of two tables."""

from collections.abc import Iterable

import numpy as np

from berth.tables.columnar.class_columns import ClassColumns
from berth.tables.columnar.schema import CLASS_COLUMNS, HOST_COLUMNS
from berth.tables.host.hosts import HostTable
from berth.tables.host.occupants import Occupant


def dump(hosts: HostTable) -> dict[str, object]:
    """Return all values of a table that rules can read, by host uuid, whatever the row order.

    Resource classes without capacity or usage are left out, so that a table that once had them
    equals one that never did.
    """
    by_host: dict[str, object] = {
        hosts.host(row).uuid: _dump_row(hosts, row) for row in hosts.alive_rows().tolist()
    }
    aggregates = dict(sorted(hosts.aggregates.items()))
    groups = dict(sorted(hosts.server_groups.items()))
    return {"hosts": by_host, "aggregates": aggregates, "server_groups": groups}


def _dump_row(hosts: HostTable, row: int) -> dict[str, object]:
    columns = {column.name: getattr(hosts, column.name)[row].item() for column in HOST_COLUMNS}
    del columns["ratios"]  # an index private to this table; the host's record has the ratios
    columns["profile"] = hosts.profiles.all[columns["profile"]]
    columns["cell"] = hosts.in_cell(hosts.host(row).cell, np.array([row])).item()
    found = {name: hosts.resource(name) for name in sorted(hosts.resource_classes)}
    uuids = sorted(hosts.occupants.on_row(row))
    occupants = [hosts.occupants.by_uuid.get(uuid) for uuid in uuids]
    return {
        "host": hosts.host(row),
        "service": hosts.service(hosts.host(row).name),
        **columns,
        "classes": {
            name: _dump_class(one, row)
            for name, one in found.items()
            if one is not None and (one.ratio[row] or one.used[row])
        },
        "traits": hosts.traits.get(row),
        "children": [_dump_child(hosts, slot) for slot in hosts.trees.on_row(row)],
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
        "occupants": [(one.uuid, one.group_uuid, one.building) for one in occupants if one],
        "groups": {
            group: members[row]
            for group in {one.group_uuid for one in occupants if one}
            if group is not None and (members := hosts.occupants.group_rows(group))
        },
        "images": {
            item: hosts.occupants.images(frozenset()).count(*item, np.array([row])).item()
            for item in {item for one in occupants if one for item in _image(one)}
        },
        "flavors": {
            flavor_id: hosts.occupants.flavor_rows(flavor_id)[row]
            for flavor_id in {one.resident.flavor_id for one in occupants if one}
        },
    }


def _image(occupant: Occupant) -> Iterable[tuple[str, str]]:
    return occupant.resident.image_properties.items()


def _dump_child(hosts: HostTable, slot: int) -> dict[str, object]:
    trees = hosts.trees
    provider = trees.provider(slot)
    names = sorted(provider.inventories.keys() | trees.used(slot).keys())
    found = {name: trees.resource(name) for name in names}
    return {
        "uuid": provider.uuid,
        "name": provider.name,
        "parent": provider.parent_uuid,
        "used": trees.used(slot),
        "classes": {n: _dump_class(one, slot) for n, one in found.items() if one is not None},
    }


def _dump_class(columns: ClassColumns, row: int) -> dict[str, object]:
    values: dict[str, object] = {
        column.name: getattr(columns, column.name)[row].item()
        for column in CLASS_COLUMNS
        if column.name
        != "terms"  # an index private to this table; the other columns have the values
    }
    values["stepped"] = row in columns.stepped
    return values
