"""Functions that load a host table from a snapshot and apply events of the change feed to it."""

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.host import Host, Service
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.lifecycle import LOADING_TASKS
from berth.domain.compute.migration import Migration, Place
from berth.domain.compute.server_group import ServerGroup
from berth.domain.inventory.provider import Provider
from berth.domain.ledger.change import Event, HostsAlive, RecordRemoved, Snapshot, Usage
from berth.domain.ledger.record import Kind
from berth.tables.host.hosts import HostTable
from berth.tables.host.occupants import Resident
from berth.tables.host.orphans import LocatedResident
from berth.tables.host.resident_columns import Attributes


def table_of(snapshot: Snapshot) -> HostTable:
    """Return the host table of a snapshot."""
    hosts = HostTable()
    hosts.reserve(len(snapshot.hosts))
    for records in (
        snapshot.hosts,
        snapshot.providers,
        snapshot.services,
        snapshot.aggregates,
        snapshot.server_groups,
        snapshot.instances,
        snapshot.migrations,
    ):
        for record in records:
            apply_event(hosts, record)
    hosts.version = snapshot.version
    # No cache can have read the table yet, so the entries of the load would only use memory.
    hosts.journal.clear()
    hosts.prepare()
    return hosts


def apply_event(hosts: HostTable, event: Event) -> None:
    """Apply one event to the table; kinds that no rule reads are ignored."""
    match event:
        case Instance():
            _apply_instance(hosts, event)
        case Migration():
            _apply_migration(hosts, event)
        case Usage():
            hosts.put_used(event.provider_uuid, event.used)
        case HostsAlive():
            hosts.put_seen(event.hosts, event.at_s)
        case Host():
            hosts.put_host(event)
        case Provider():
            hosts.put_provider(event)
        case Service():
            hosts.put_service(event)
        case Aggregate():
            hosts.put_aggregate(event)
        case ServerGroup():
            hosts.server_groups[event.uuid] = event
        case RecordRemoved():
            _apply_gone(hosts, event)
        case _:
            pass


def located_resident(record: Instance | Migration) -> LocatedResident | None:
    """Return the resident that a record puts on a host, with that host; None if it has no host."""
    if isinstance(record, Migration):
        place = record.elsewhere
        if place is None:
            return None
        resident, attributes = resident_of_move(record, place), attributes_of(record)
        return LocatedResident(resident, place.host, place.node, attributes)
    if record.host is None or record.status is Status.DELETED:
        return None
    return LocatedResident(resident_of(record), record.host, record.node, attributes_of(record))


def put_located(hosts: HostTable, located: LocatedResident) -> None:
    """Put a resident on its host, or among the orphans until the host is added."""
    host_uuid = hosts.find(located.name, located.node)
    if host_uuid is None:
        hosts.put_orphan(located)
    else:
        hosts.put_instance(host_uuid, located.resident, located.attributes)


def _apply_instance(hosts: HostTable, instance: Instance) -> None:
    name, node, uuid = instance.host, instance.node, instance.uuid
    if name is None or instance.status is Status.DELETED:
        hosts.remove_instance(uuid)
        return
    host_uuid = hosts.find(name, node)
    if host_uuid is None:
        hosts.put_orphan(
            LocatedResident(resident_of(instance), name, node, attributes_of(instance))
        )
    else:
        hosts.put_instance(host_uuid, resident_of(instance), attributes_of(instance))


def _apply_migration(hosts: HostTable, migration: Migration) -> None:
    """Put a migration on its other host, under its own uuid, while it holds resources there."""
    located = located_resident(migration)
    if located is None:
        hosts.remove_instance(migration.uuid)
    else:
        put_located(hosts, located)


def resident_of_move(migration: Migration, place: Place) -> Resident:
    """Return the resident that represents an instance on the other host of its migration.

    A migration that only waits for cleanup belongs to no server group, because the instance cannot
    return to that host. A resize on the same host does not count, because the instance does.
    """
    if migration.is_in_place:
        return Resident(
            uuid=migration.uuid,
            flavor_id=place.flavor.flavor_id,
            assignment=place.assignment,
            is_move=True,
            counts=False,
        )
    return Resident(
        uuid=migration.uuid,
        group_uuid=None if migration.is_left_over else migration.group_uuid,
        building=place is migration.destination,
        flavor_id=place.flavor.flavor_id,
        assignment=place.assignment,
        is_move=True,
    )


def resident_of(instance: Instance) -> Resident:
    """Return the resident that represents an instance on its host."""
    return Resident(
        uuid=instance.uuid,
        group_uuid=instance.group_uuid,
        building=instance.task in LOADING_TASKS,
        flavor_id=instance.flavor.flavor_id,
        image_properties=instance.image.properties if instance.image else {},
        assignment=instance.assignment,
    )


def attributes_of(record: Instance | Migration) -> Attributes:
    """Return the attributes of the instance of a record.

    A migration records only the project and the user of its instance; its other attributes stay
    empty.
    """
    if isinstance(record, Migration):
        return Attributes(record.project_id, record.user_id)
    return Attributes(
        record.project_id,
        record.user_id,
        record.image.image_id if record.image else "",
        record.name,
        record.metadata,
        record.launched_at_s or 0.0,
    )


def _apply_gone(hosts: HostTable, gone: RecordRemoved) -> None:
    match gone.kind:
        case Kind.HOST:
            hosts.remove_host(gone.key)
        case Kind.PROVIDER:
            hosts.remove_provider(gone.key)
        case Kind.SERVICE:
            hosts.remove_service(gone.key)
        case Kind.AGGREGATE:
            hosts.remove_aggregate(int(gone.key))
        case Kind.SERVER_GROUP:
            hosts.server_groups.pop(gone.key, None)
        case Kind.INSTANCE | Kind.MIGRATION:
            hosts.remove_instance(gone.key)
        case _:
            pass
