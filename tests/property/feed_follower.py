"""A follower that rebuilds the ledger's records from the change feed alone."""

from collections.abc import Sequence
from dataclasses import replace

from berth.adapters.ledger.engine.listing import is_live
from berth.domain.compute.host import Service
from berth.domain.compute.instance import Instance
from berth.domain.compute.migration import Migration
from berth.domain.inventory.provider import Provider
from berth.domain.ledger.change import Change, HostsAlive, RecordRemoved, Snapshot, Usage
from berth.domain.ledger.record import Kind, Record, key_of, kind_of


class Follower:
    """Replays the feed from version 0 and checks every version on the way."""

    def __init__(self) -> None:
        self.version = 0
        self.records: dict[Kind, dict[str, Record]] = {kind: {} for kind in Kind}

    def follow(self, changes: Sequence[Change]) -> None:
        """Apply changes that continue after the last applied version."""
        for change in changes:
            assert change.version in {self.version, self.version + 1}
            self.version = change.version
            self._apply(change)

    def _apply(self, change: Change) -> None:
        match change.event:
            case Usage(uuid, used, generation):
                provider = self._provider(uuid)
                assert generation is not None
                assert generation >= provider.generation
                for name, amount in used.items():
                    if amount > provider.used.get(name, 0):
                        assert amount <= provider.inventories[name].capacity
                now = replace(provider, used=used, generation=generation)
                self.records[Kind.PROVIDER][uuid] = now
            case HostsAlive(hosts, at_s):
                for host in hosts:
                    service = self.records[Kind.SERVICE][host]
                    assert isinstance(service, Service)
                    self.records[Kind.SERVICE][host] = replace(service, last_seen_s=at_s)
            case RecordRemoved(kind, key):
                del self.records[kind][key]
            case record:
                self.records[kind_of(record)][key_of(record)] = record

    def _provider(self, uuid: str) -> Provider:
        provider = self.records[Kind.PROVIDER][uuid]
        assert isinstance(provider, Provider)
        return provider

    def check(self, snapshot: Snapshot) -> None:
        """Check that a snapshot equals the records rebuilt from the feed."""
        assert snapshot.version == self.version
        for kind, found in (
            (Kind.HOST, snapshot.hosts),
            (Kind.PROVIDER, snapshot.providers),
            (Kind.SERVICE, snapshot.services),
            (Kind.AGGREGATE, snapshot.aggregates),
            (Kind.SERVER_GROUP, snapshot.server_groups),
            (Kind.FLAVOR, snapshot.flavors),
            (Kind.PENDING_REQUEST, snapshot.pending_requests),
            (Kind.RESOURCE_CLASS, snapshot.resource_classes),
            (Kind.TRAIT, snapshot.traits),
        ):
            assert {key_of(record): record for record in found} == self.records[kind]
        instances = self.records[Kind.INSTANCE].values()
        live = {i.uuid: i for i in instances if isinstance(i, Instance) and is_live(i)}
        assert {i.uuid: i for i in snapshot.instances} == live
        moves = self.records[Kind.MIGRATION].values()
        under_way = {m.uuid: m for m in moves if isinstance(m, Migration) and not m.has_ended}
        assert {m.uuid: m for m in snapshot.migrations} == under_way
