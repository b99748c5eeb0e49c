"""Reads the audit snapshot of one host, with its records and those of its consumers."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from berth.domain.compute.host import Host, Service
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.migration import Migration
from berth.domain.errors import InvalidInputError
from berth.domain.inventory.allocation import Consumer
from berth.domain.inventory.provider import Provider
from berth.domain.ledger.discrepancy import AuditAges
from berth.domain.ledger.record import PendingRequest
from berth.ports.ledger import InstanceQuery, Ledger, MigrationQuery
from berth.services.auditing.audit_snapshot import (
    ALL,
    Amounts,
    AuditSnapshot,
    held_by,
    without_zeros,
)
from berth.services.auditing.instances import needed_by
from berth.services.replica.replica import Replica
from berth.tables.host.hosts import HostTable


async def read_host_snapshot(  # noqa: PLR0913 - each describes what to read, or how to judge it
    ledger: Ledger,
    replica: Replica,
    host: str,
    ages: AuditAges,
    *,
    now_s: float,
    service_down_time_s: float,
    default_zone: str,
) -> AuditSnapshot:
    """Return the snapshot for an audit of one host, read record by record.

    It includes instances that hold something on this host and belong elsewhere, but no records that
    concern several hosts (server groups, pending requests). For the arguments see
    `read_audit_snapshot`.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    # The version is read first, so that the report never states a newer version than its records.
    version = await ledger.version()
    providers = await _providers(ledger, replica.hosts, host)
    here, consumers = await _consumers_of(ledger, providers)
    found = await ledger.instances(InstanceQuery(host=host, limit=ALL))
    instances = {one.uuid: one for one in found}
    moves = await ledger.migrations(MigrationQuery(host=host, is_live=True, limit=ALL))
    migrations = {one.uuid: one for one in moves}
    # Consumers and moving instances may be elsewhere. Their records show whether they belong here.
    coming = [*(one.instance_uuid for one in moves), *consumers]
    await _add_instances(ledger, instances, coming)
    await _add_moves(ledger, migrations, instances.values())
    hosts = _hosts_of(replica.hosts, host, instances.values(), migrations.values())
    names = {host, *(one.turn or one.source.host for one in migrations.values())}
    # The services of other hosts show whether the other side of a move is up.
    names |= {one.host for one in instances.values() if one.host is not None}
    services = [await ledger.get(Service, name) for name in sorted(names)]
    snapshot = AuditSnapshot(
        version=version,
        now_s=now_s,
        ages=ages,
        service_down_time_s=service_down_time_s,
        hosts={(one.name, one.node): one for one in hosts},
        hosts_by_uuid={one.uuid: one for one in hosts},
        services={one.host: replica.with_heartbeat(one) for one in services if one is not None},
        with_heartbeat=replica.with_heartbeat,
        default_zone=default_zone,
        providers=providers,
        aggregates=replica.hosts.memberships.of_host(host),
        groups={},
        instances=instances,
        migrations=migrations,
        waiting=_waiting(replica),
        requests={},
        shelved={},
        held=here,
        consumers=consumers,
    )
    return replace(snapshot, held=await _held(ledger, snapshot, here))


def _waiting(replica: Replica) -> dict[str, PendingRequest]:
    """Return the pending request of each instance that waits for a host."""
    # The replica is recent enough, because pending requests only excuse tasks without a host.
    pending = replica.pending.values()
    return {uuid: one for one in pending for uuid in one.request.instance_uuids}


async def _consumers_of(
    ledger: Ledger, providers: Iterable[str]
) -> tuple[dict[str, dict[str, Mapping[str, int]]], dict[str, Consumer]]:
    """Return the allocations on the providers by consumer, and the consumers by uuid."""
    here: dict[str, dict[str, Mapping[str, int]]] = {}
    consumers: dict[str, Consumer] = {}
    for uuid in providers:
        for holding in await ledger.provider_consumers(uuid):
            consumers[holding.consumer.uuid] = holding.consumer
            amounts = without_zeros(holding.allocations[uuid])
            here.setdefault(holding.consumer.uuid, {})[uuid] = amounts
    return here, consumers


async def _held(
    ledger: Ledger, snapshot: AuditSnapshot, here: Mapping[str, Amounts]
) -> dict[str, Amounts]:
    """Return the allocations of the host's consumers, instances and moves, by consumer.

    For an instance that holds exactly what it needs here, only these allocations are returned,
    which saves a read. The audit of another host finds the instance's allocations there.
    """
    held: dict[str, Amounts] = {}
    for uuid in {*here, *snapshot.instances, *snapshot.migrations}:
        if uuid in here and _has_its_due(snapshot, uuid, here[uuid]):
            held[uuid] = here[uuid]
        elif amounts := await held_by(ledger, uuid):
            held[uuid] = amounts
    return held


def _has_its_due(snapshot: AuditSnapshot, uuid: str, held: Amounts) -> bool:
    instance = snapshot.instances.get(uuid)
    try:
        return instance is not None and needed_by(snapshot, instance) == held
    except InvalidInputError:
        return False


async def _providers(ledger: Ledger, table: HostTable, host: str) -> dict[str, Provider]:
    """Return the root providers of a host and their descendants, by uuid."""
    uuids: list[str] = []
    for row in sorted(table.host_names.of_name(host)):
        uuids.append(table.uuid(row))
        uuids += [table.trees.provider(slot).uuid for slot in table.trees.on_row(row)]
    found = [await ledger.get(Provider, uuid) for uuid in uuids]
    return {one.uuid: one for one in found if one is not None}


async def _add_instances(
    ledger: Ledger, instances: dict[str, Instance], uuids: Iterable[str]
) -> None:
    """Read the given instances, and add those that are live and on a host to `instances`."""
    for uuid in uuids:
        if uuid not in instances:
            one = await ledger.get(Instance, uuid)
            if one is not None and one.host is not None and one.status is not Status.DELETED:
                instances[uuid] = one


async def _add_moves(
    ledger: Ledger, migrations: dict[str, Migration], instances: Iterable[Instance]
) -> None:
    """Read the moves in progress of the instances, and add them to `migrations`."""
    for uuid in {one.migration_uuid for one in instances} - {None, *migrations}:
        one = await ledger.get(Migration, uuid or "")
        if one is not None and not one.has_ended:
            migrations[one.uuid] = one


def _hosts_of(
    table: HostTable,
    host: str,
    instances: Iterable[Instance],
    migrations: Iterable[Migration],
) -> list[Host]:
    """Return a host and the hosts that instances are on or moving to."""
    names = {host, *(one.host for one in instances if one.host is not None)}
    names |= {one.destination.host for one in migrations}
    return [
        table.host(row) for name in sorted(names) for row in sorted(table.host_names.of_name(name))
    ]
