"""The plan of an import: what differs between Nova and the ledger, and what would be written."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Final, cast

from berth.domain.compute.flavor import FlavorAccess
from berth.domain.compute.host import Host, Service
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.key_pair import PAIRS_MAX, KeyRing
from berth.domain.compute.observed import is_observed
from berth.domain.inventory.allocation import Consumer, ConsumerAllocations
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory, ResourceClass, Trait
from berth.domain.ledger.record import Record
from berth.ports.nova import ImportFinding, ImportKind, NovaCloud
from berth.services.importing.completion import completed, trees_of
from berth.services.importing.stored_fleet import StoredFleet
from berth.services.requests.permissions import LOCKED, LOCKED_BY

# Fields that the ledger maintains itself, or that Nova does not have.
_IGNORED: Final[Mapping[type, frozenset[str]]] = {
    Provider: frozenset({"generation", "used", "created_at_s", "updated_at_s"}),
    Instance: frozenset({"revision"}),
}
_TEXT_MAX: Final = 120


class Verb(StrEnum):
    """The action of an import on a record."""

    CREATE = "create"
    UPDATE = "update"
    REMOVE = "remove"
    """Nova no longer has the record. An import removes it only if the operator asks for that."""


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A field whose values differ, as texts; the value of a record that is missing is empty."""

    field: str
    nova: str
    berth: str


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """A record that an import creates, updates or removes.

    `record` is what will be stored, or the consumer and its allocations; None to remove it.
    """

    kind: ImportKind
    key: str
    name: str
    verb: Verb
    differences: tuple[FieldDifference, ...] = ()
    record: Record | ConsumerAllocations | None = None


@dataclass(frozen=True, slots=True)
class KindCount:
    """The records of one kind: how many Nova has, and what an import does with them."""

    kind: ImportKind
    in_nova: int
    same: int
    create: int
    update: int
    remove: int


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """The changes that an import would make.

    Attributes:
        cloud: Nova's records as the ledger should contain them.
        stored: the ledger's records.
        changes: the changes in the order in which they are written.
        findings: the records that are left out, changed, or suspicious.
        in_nova: the number of records by kind.
    """

    cloud: NovaCloud
    stored: StoredFleet
    changes: tuple[PlannedChange, ...]
    findings: tuple[ImportFinding, ...]
    in_nova: Mapping[ImportKind, int]

    @property
    def counts(self) -> list[KindCount]:
        """The counts of each kind."""
        done = Counter((change.kind, change.verb) for change in self.changes)
        return [
            KindCount(
                kind,
                total,
                max(0, total - done[kind, Verb.CREATE] - done[kind, Verb.UPDATE]),
                done[kind, Verb.CREATE],
                done[kind, Verb.UPDATE],
                done[kind, Verb.REMOVE],
            )
            for kind, total in self.in_nova.items()
        ]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A record that the ledger should contain, and the one that it contains."""

    kind: ImportKind
    key: str
    name: str
    record: Record
    stored: Record | None


def plan_import(cloud: NovaCloud, stored: StoredFleet) -> ImportPlan:
    """Return what differs between a Nova cloud and the ledger.

    Args:
        cloud: what a reader returned.
        stored: the ledger's records.
    """
    cloud = _without_own(completed(cloud), stored)
    findings = list(cloud.findings)
    wanted = [*_small(cloud, stored, findings), *_fleet(cloud, stored, findings)]
    changes = [change for one in wanted if (change := _change(one)) is not None]
    in_nova = Counter(one.kind for one in wanted)
    changes += _allocations(cloud, stored)
    in_nova[ImportKind.ALLOCATIONS] = len(cloud.holdings)
    changes += _gone(cloud, stored)
    return ImportPlan(
        cloud,
        stored,
        tuple(changes),
        tuple(findings),
        {kind: in_nova[kind] for kind in ImportKind},
    )


def _without_own(cloud: NovaCloud, stored: StoredFleet) -> NovaCloud:
    """Return a cloud without the hosts and servers that Berth runs, with a finding for each."""
    findings = list(cloud.findings)
    own, roots, trees = stored.own_hosts, stored.own_roots, trees_of(cloud)
    skipped = roots | {one.uuid for one in cloud.hosts if one.name in own}
    for host in cloud.hosts:
        if host.uuid in skipped:
            reason = "has or is about to have an agent of Berth, so Berth's own records stay"
            advice = (
                "delete its compute service in Nova, or remove it here with `berth service delete`"
            )
            findings.append(ImportFinding(ImportKind.HOST, host.name, reason, advice))
    servers: list[Instance] = []
    for server in cloud.servers:
        known = stored.instances.get(server.uuid)
        is_own = known is not None and not is_observed(known) and known.status is not Status.DELETED
        if is_own or server.host in own:
            reason = "is a server of Berth itself, or is on a host of Berth"
            advice = "check why both clouds have it; it is not imported"
            findings.append(ImportFinding(ImportKind.SERVER, server.uuid, reason, advice))
        else:
            servers.append(server)
    kept = {uuid for uuid in trees.providers if trees.roots[uuid] not in skipped}
    held = (_restricted(one, kept) for one in cloud.holdings)
    return replace(
        cloud,
        hosts=tuple(one for one in cloud.hosts if one.uuid not in skipped),
        services=tuple(one for one in cloud.services if one.host not in own),
        providers=tuple(one for one in cloud.providers if one.uuid in kept),
        servers=tuple(servers),
        holdings=tuple(one for one in held if one.allocations),
        findings=tuple(findings),
    )


def _restricted(one: ConsumerAllocations, kept: set[str]) -> ConsumerAllocations:
    inside = {uuid: amounts for uuid, amounts in one.allocations.items() if uuid in kept}
    return replace(one, allocations=inside)


def _small(
    cloud: NovaCloud, stored: StoredFleet, findings: list[ImportFinding]
) -> Iterator[_Wanted]:
    """Yield the records that describe no machine."""
    for name in cloud.resource_classes:
        known = stored.resource_classes.get(name)
        record = known or ResourceClass(name, 0)
        yield _Wanted(ImportKind.RESOURCE_CLASS, name, name, record, known)
    for name in cloud.traits:
        trait = stored.traits.get(name)
        yield _Wanted(ImportKind.TRAIT, name, name, trait or Trait(name, 0), trait)
    yield from _aggregates(cloud, stored, findings)
    names = {one.name: one.flavor_id for one in stored.flavors.values()}
    for flavor in cloud.flavors:
        if names.get(flavor.name, flavor.flavor_id) != flavor.flavor_id:
            findings.append(_taken(ImportKind.FLAVOR, flavor.flavor_id, flavor.name))
            continue
        before = stored.flavors.get(flavor.flavor_id)
        yield _Wanted(ImportKind.FLAVOR, flavor.flavor_id, flavor.name, flavor, before)
    for access in cloud.flavor_accesses:
        was = stored.flavor_accesses.get(access.flavor_id) or _no_access(access)
        key = access.flavor_id
        yield _Wanted(ImportKind.FLAVOR_ACCESS, key, key, access, was)
    for group in cloud.server_groups:
        old = stored.server_groups.get(group.uuid)
        if old is not None:
            # The zone of a group is Berth's own decision.
            group = replace(group, zone_id=old.zone_id)  # noqa: PLW2901 - completed with what is stored
        yield _Wanted(ImportKind.SERVER_GROUP, group.uuid, group.name, group, old)
    for quota in cloud.quotas:
        key = quota.project_id
        yield _Wanted(ImportKind.QUOTA, key, key, quota, stored.quotas.get(key))
    for ring in cloud.key_rings:
        known_ring = stored.key_rings.get(ring.user_id)
        merged = _merged_ring(ring, known_ring)
        yield _Wanted(ImportKind.KEY_PAIRS, ring.user_id, ring.user_id, merged, known_ring)


def _no_access(access: FlavorAccess) -> FlavorAccess | None:
    """Return the stored form of an access without projects, for which no record is needed."""
    return None if access.projects else access


def _taken(kind: ImportKind, key: str, name: str) -> ImportFinding:
    reason = f"has the name {name!r}, which another {kind} of Berth has"
    return ImportFinding(kind, key, reason, "rename one of them, then import again")


def _aggregates(
    cloud: NovaCloud, stored: StoredFleet, findings: list[ImportFinding]
) -> Iterator[_Wanted]:
    names = {one.name: one.uuid for one in stored.aggregates.values()}
    own, here = stored.own_hosts, {one.name for one in cloud.hosts}
    numbers = {one.aggregate_id: one.uuid for one in stored.aggregates.values()}
    for one in cloud.aggregates:
        before = stored.aggregates.get(one.uuid)
        if names.get(one.name, one.uuid) != one.uuid:
            findings.append(_taken(ImportKind.AGGREGATE, one.name, one.name))
            continue
        number = one.aggregate_id
        if before is not None:
            number = before.aggregate_id
        elif numbers.get(number, one.uuid) != one.uuid:
            number = 0  # the import gives it a number of its own
            reason = f"has the id {one.aggregate_id}, which another aggregate of Berth has"
            advice = "use the new id that Berth gives it"
            findings.append(ImportFinding(ImportKind.AGGREGATE, one.name, reason, advice))
        # Hosts of Berth stay in the aggregate, although Nova does not know them.
        kept = before.hosts & own if before is not None else frozenset[str]()
        record = replace(one, aggregate_id=number, hosts=(one.hosts & here) | kept)
        yield _Wanted(ImportKind.AGGREGATE, one.uuid, one.name, record, before)


def _merged_ring(ring: KeyRing, stored: KeyRing | None) -> KeyRing:
    """Return the key pairs of Nova and those that only Berth has."""
    if stored is None:
        return ring
    pairs = {one.name: one for one in stored.key_pairs}
    for one in ring.key_pairs:
        known = pairs.get(one.name)
        # The list of key pairs in Nova's API has no creation times.
        at_s = one.created_at_s or (known.created_at_s if known else 0.0)
        pairs[one.name] = replace(one, created_at_s=at_s)
    kept = [pairs[name] for name in sorted(pairs)]
    return KeyRing(ring.user_id, tuple(kept[:PAIRS_MAX]))


def _fleet(
    cloud: NovaCloud, stored: StoredFleet, findings: list[ImportFinding]
) -> Iterator[_Wanted]:
    """Yield the providers, hosts, services and servers."""
    names = {one.name: one.uuid for one in stored.providers.values()}
    for provider in cloud.providers:
        before = stored.providers.get(provider.uuid)
        if names.get(provider.name, provider.uuid) != provider.uuid:
            findings.append(_taken(ImportKind.PROVIDER, provider.uuid, provider.name))
            provider = replace(provider, name=f"{provider.name} ({provider.uuid})")  # noqa: PLW2901
        yield _Wanted(
            ImportKind.PROVIDER,
            provider.uuid,
            provider.name,
            _as_stored(provider, before),
            before,
        )
    for host in cloud.hosts:
        seen = stored.hosts.get(host.uuid)
        whole = host if seen is None else _with_known(host, seen)
        yield _Wanted(ImportKind.HOST, host.uuid, host.name, whole, seen)
    for service in cloud.services:
        known = stored.services.get(service.host)
        merged = service if known is None else _merged_service(service, known)
        yield _Wanted(ImportKind.SERVICE, service.host, service.host, merged, known)
    for server in cloud.servers:
        was = stored.instances.get(server.uuid)
        is_gone = was is not None and was.status is Status.DELETED
        record = replace(server, revision=0 if was is None else was.revision)
        record = record if was is None else _with_known_lock(record, was)
        live = None if is_gone else was
        yield _Wanted(ImportKind.SERVER, server.uuid, server.name, record, live)


def _as_stored(provider: Provider, before: Provider | None) -> Provider:
    """Return a provider with the classes that the ledger keeps because they are in use."""
    if before is None:
        return provider
    kept = {
        name: Inventory(total=0)
        for name, amount in before.used.items()
        if amount and name not in provider.inventories
    }
    return replace(provider, inventories={**kept, **provider.inventories})


def _with_known(host: Host, before: Host) -> Host:
    """Return a host with the fields that only an import from the databases can read."""
    return replace(
        host,
        supported_instances=host.supported_instances or before.supported_instances,
        cpu_info=host.cpu_info or before.cpu_info,
    )


def _with_known_lock(server: Instance, before: Instance) -> Instance:
    """Return a server with its stored `locked_by`, which the API does not report."""
    who, is_same = before.extra.get(LOCKED_BY), LOCKED in server.extra and LOCKED in before.extra
    if not is_same or who is None or LOCKED_BY in server.extra:
        return server
    return replace(server, extra={**server.extra, LOCKED_BY: who})


def _merged_service(service: Service, known: Service) -> Service:
    """Return a stored service with Nova's administrative state."""
    return replace(
        known,
        disabled=service.disabled,
        disabled_reason=service.disabled_reason,
        forced_down=service.forced_down,
    )


def _change(one: _Wanted) -> PlannedChange | None:
    """Return the change that stores a record; None if it is stored already."""
    if one.stored is None:
        return PlannedChange(one.kind, one.key, one.name, Verb.CREATE, record=one.record)
    found = differences_of(one.record, one.stored)
    if not found:
        return None
    return PlannedChange(one.kind, one.key, one.name, Verb.UPDATE, found, one.record)


def differences_of(nova: Record, berth: Record) -> tuple[FieldDifference, ...]:
    """Return the fields in which two records of one type differ."""
    ignored = _IGNORED.get(type(nova), frozenset())
    pairs = (
        (field.name, getattr(nova, field.name), getattr(berth, field.name))
        for field in fields(nova)
        if field.name not in ignored
    )
    return tuple(
        FieldDifference(name, value_text(mine), value_text(theirs))
        for name, mine, theirs in pairs
        if mine != theirs
    )


def value_text(value: Any) -> str:  # noqa: ANN401 - the value of any field
    """Return a value as a short text."""
    if isinstance(value, frozenset):
        value = sorted(cast("frozenset[str]", value))
    text = str(value)
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}..."


def _allocations(cloud: NovaCloud, stored: StoredFleet) -> Iterator[PlannedChange]:
    """Yield the consumers whose allocations differ, servers and others."""
    for one in cloud.holdings:
        uuid, was = one.consumer.uuid, stored.held.get(one.consumer.uuid, {})
        found = [
            FieldDifference(f"{provider} {name}", str(nova), str(berth))
            for provider, name, nova, berth in _amounts(one.allocations, was)
        ]
        consumer = stored.consumers.get(uuid)
        if consumer is not None:
            found += _owner_differences(one.consumer, consumer)
        if found:
            verb = Verb.UPDATE if was else Verb.CREATE
            kind = ImportKind.ALLOCATIONS
            yield PlannedChange(kind, uuid, uuid, verb, tuple(found), one)


def _owner_differences(nova: Consumer, berth: Consumer) -> list[FieldDifference]:
    return [
        FieldDifference(name, value_text(mine), value_text(theirs))
        for name in ("project_id", "user_id", "consumer_type")
        if (mine := getattr(nova, name)) != (theirs := getattr(berth, name))
    ]


def _amounts(
    nova: Mapping[str, Mapping[str, int]], berth: Mapping[str, Mapping[str, int]]
) -> Iterator[tuple[str, str, int, int]]:
    """Yield provider, class and both amounts wherever two allocations differ."""
    for provider in sorted(nova.keys() | berth.keys()):
        mine, theirs = nova.get(provider, {}), berth.get(provider, {})
        for name in sorted(mine.keys() | theirs.keys()):
            if mine.get(name, 0) != theirs.get(name, 0):
                yield provider, name, mine.get(name, 0), theirs.get(name, 0)


def _gone(cloud: NovaCloud, stored: StoredFleet) -> Iterator[PlannedChange]:
    """Yield the removals of imported records that Nova no longer has, in the order of removal."""
    servers = {one.uuid for one in cloud.servers}
    hosts = {one.uuid for one in cloud.hosts}
    consumers = {one.consumer.uuid for one in cloud.holdings}
    observed = [one for one in stored.hosts.values() if is_observed(one)]
    trees = {uuid for one in observed for uuid in (one.uuid, *one.child_uuids)}
    for uuid, instance in sorted(stored.instances.items()):
        is_live = instance.status is not Status.DELETED and is_observed(instance)
        if is_live and uuid not in servers:
            yield PlannedChange(ImportKind.SERVER, uuid, instance.name, Verb.REMOVE)
    yield from _gone_consumers(stored, trees, servers, consumers)
    for host in observed:
        if host.uuid not in hosts:
            yield PlannedChange(ImportKind.HOST, host.uuid, host.name, Verb.REMOVE)
    providers = {one.uuid for one in cloud.providers}
    for host in observed:
        for uuid in host.child_uuids:
            known = stored.providers.get(uuid)
            if host.uuid in hosts and known is not None and uuid not in providers:
                yield PlannedChange(ImportKind.PROVIDER, uuid, known.name, Verb.REMOVE)


def _gone_consumers(
    stored: StoredFleet, trees: set[str], servers: set[str], consumers: Iterable[str]
) -> Iterator[PlannedChange]:
    """Yield the consumers that hold something of observed hosts only in Berth.

    Those of servers that are gone are freed with their servers. Others, such as those of migrations
    that have ended, are freed at once: they are as short-lived in Nova.
    """
    known = set(consumers)
    for uuid, held in sorted(stored.held.items()):
        instance = stored.instances.get(uuid)
        if uuid in known or not held.keys() <= trees:
            continue
        if instance is not None and (not is_observed(instance) or uuid not in servers):
            continue
        consumer = stored.consumers.get(uuid) or Consumer(uuid, "", "")
        found = tuple(
            FieldDifference(f"{provider} {name}", "0", str(berth))
            for provider, name, _, berth in _amounts({}, held)
        )
        freed = ConsumerAllocations(consumer, {})
        yield PlannedChange(ImportKind.ALLOCATIONS, uuid, uuid, Verb.UPDATE, found, freed)
