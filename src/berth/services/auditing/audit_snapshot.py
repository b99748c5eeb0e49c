"""The snapshot on which an audit is based: the ledger's records, indexed by their references."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.host import Host, Service
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.migration import Migration
from berth.domain.compute.server_group import ServerGroup
from berth.domain.inventory.allocation import Allocation, Consumer
from berth.domain.inventory.provider import Provider
from berth.domain.ledger.change import Snapshot
from berth.domain.ledger.discrepancy import AuditAges
from berth.domain.ledger.record import PendingRequest
from berth.ports.ledger import InstanceQuery, Ledger
from berth.services.replica.replica import Replica

_TRIES: Final = 3
ALL: Final = 2**31 - 1

# Amounts by provider and resource class, without zeros.
Amounts = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class AuditSnapshot:
    """The records of the ledger by key.

    `instances` are those on a host or waiting for one, and `migrations` those that have not ended.
    The keys of `hosts` are name and node. `waiting` maps the uuid of each instance to its pending
    request, `shelved` has the shelved instances without a host, and `held` the amounts of each
    consumer. Ages are relative to `now_s`, Unix seconds. `with_heartbeat` adds to a service the
    last heartbeat, which the ledger may lack. `default_zone` is the availability zone of hosts to
    which no aggregate assigns one.
    """

    version: int
    now_s: float
    ages: AuditAges
    service_down_time_s: float
    hosts: Mapping[tuple[str, str], Host]
    hosts_by_uuid: Mapping[str, Host]
    services: Mapping[str, Service]
    providers: Mapping[str, Provider]
    aggregates: tuple[Aggregate, ...]
    groups: Mapping[str, ServerGroup]
    instances: Mapping[str, Instance]
    migrations: Mapping[str, Migration]
    waiting: Mapping[str, PendingRequest]
    requests: Mapping[str, PendingRequest]
    shelved: Mapping[str, Instance]
    held: Mapping[str, Amounts]
    consumers: Mapping[str, Consumer]
    with_heartbeat: Callable[[Service], Service]
    default_zone: str

    def is_older(self, since_s: float, age_s: float) -> bool:
        """Return whether `since_s` (Unix seconds) is more than `age_s` seconds ago."""
        return self.now_s - since_s > age_s

    def is_up(self, service: Service | None) -> bool:
        """Return whether a compute service exists and is up."""
        if service is None:
            return False
        return self.with_heartbeat(service).is_up(self.now_s, self.service_down_time_s)

    def host_of(self, provider_uuid: str) -> str | None:
        """Return the name of the host that a provider belongs to, or None if it belongs to none."""
        host = self.hosts_by_uuid.get(self._root_of(provider_uuid))
        return None if host is None else host.name

    def _root_of(self, provider_uuid: str) -> str:
        uuid, above = provider_uuid, set[str]()
        while uuid not in self.hosts_by_uuid and uuid not in above:
            above.add(uuid)
            provider = self.providers.get(uuid)
            # Older versions allowed loops of parents, so the climb stops at a repetition.
            uuid = uuid if provider is None else provider.parent_uuid or uuid
        return uuid

    def move_of(self, instance: Instance) -> Migration | None:
        """Return the move in progress of an instance, or None if there is none."""
        return self.migrations.get(instance.migration_uuid or "")


async def read_audit_snapshot(
    ledger: Ledger,
    replica: Replica,
    ages: AuditAges,
    *,
    now_s: float,
    service_down_time_s: float,
    default_zone: str,
) -> AuditSnapshot:
    """Return a snapshot of the whole ledger, of one version unless the ledger keeps changing.

    Args:
        ledger: the ledger to audit.
        replica: knows the heartbeats that the ledger lacks.
        ages: the ages below which inconsistencies are not reported.
        now_s: the Unix time to which ages are relative.
        service_down_time_s: seconds without a heartbeat after which a service is down.
        default_zone: the availability zone of hosts to which no aggregate assigns one.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    read = await _read(ledger, now_s)
    # A consistent snapshot saves rechecks but is not required, because every suspicion is checked
    # again.
    for _ in range(_TRIES - 1):
        if await ledger.version() == read.state.version:
            break
        read = await _read(ledger, now_s)
    state = read.state
    held: dict[str, dict[str, Mapping[str, int]]] = {}
    for one in read.allocations:
        # A zero amount is not an allocation, and must not count as a difference.
        held.setdefault(one.consumer_uuid, {})[one.provider_uuid] = without_zeros(one.amounts)
    requests = {one.request.request_id: one for one in state.pending_requests}
    return AuditSnapshot(
        version=state.version,
        now_s=now_s,
        ages=ages,
        service_down_time_s=service_down_time_s,
        hosts={(host.name, host.node): host for host in state.hosts},
        hosts_by_uuid={host.uuid: host for host in state.hosts},
        services={one.host: replica.with_heartbeat(one) for one in state.services},
        with_heartbeat=replica.with_heartbeat,
        default_zone=default_zone,
        providers={provider.uuid: provider for provider in state.providers},
        aggregates=state.aggregates,
        groups={group.uuid: group for group in state.server_groups},
        instances={instance.uuid: instance for instance in state.instances},
        migrations={migration.uuid: migration for migration in state.migrations},
        waiting={uuid: one for one in requests.values() for uuid in one.request.instance_uuids},
        requests=requests,
        shelved={instance.uuid: instance for instance in read.shelved},
        held=held,
        consumers={consumer.uuid: consumer for consumer in read.consumers},
    )


class _Read(NamedTuple):
    """The results of consecutive reads of the ledger."""

    state: Snapshot
    allocations: list[Allocation]
    consumers: list[Consumer]
    shelved: list[Instance]


async def _read(ledger: Ledger, now_s: float) -> _Read:
    query = InstanceQuery(status=Status.SHELVED_OFFLOADED, limit=ALL)
    return _Read(
        # The snapshot comes first. The rechecks drop what changes after it.
        state=await ledger.snapshot(now_s),
        allocations=await ledger.allocations(),
        consumers=await ledger.all(Consumer),
        shelved=await ledger.instances(query),
    )


def without_zeros(amounts: Mapping[str, int]) -> dict[str, int]:
    """Return amounts by class without zeros."""
    return {name: amount for name, amount in amounts.items() if amount}


async def held_by(ledger: Ledger, consumer_uuid: str) -> Amounts:
    """Return a consumer's current allocations, without zeros.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    found = await ledger.allocations(consumer_uuid=consumer_uuid)
    return {one.provider_uuid: without_zeros(one.amounts) for one in found}


def total_by_class(amounts: Amounts) -> dict[str, int]:
    """Return the sums of amounts over all providers, by class."""
    total: dict[str, int] = {}
    for of_provider in amounts.values():
        for name, amount in of_provider.items():
            total[name] = total.get(name, 0) + amount
    return total


def amounts_text(amounts: Mapping[str, int]) -> str:
    """Return amounts as text, such as `MEMORY_MB 512, VCPU 1`, or `nothing`."""
    return ", ".join(f"{name} {amount:,}" for name, amount in sorted(amounts.items())) or "nothing"


def age_text(snapshot: AuditSnapshot, since_s: float) -> str:
    """Return the time since an event as text, such as `3 hours`."""
    seconds = max(0, int(snapshot.now_s - since_s))
    # The largest unit is precise enough for an operator's decision.
    for length, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= length:
            count = seconds // length
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return f"{seconds} s"
