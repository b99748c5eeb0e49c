"""Tests for the kinds and keys of ledger records."""

from berth.domain.compute.decision import Decision, Verdict
from berth.domain.compute.flavor import Flavor, FlavorAccess
from berth.domain.compute.host_identity import HostIdentity, HostKey
from berth.domain.compute.key_pair import KeyRing
from berth.domain.compute.maintenance import Maintenance
from berth.domain.compute.quota import Quota
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.compute.server_image import ServerImage
from berth.domain.inventory.allocation import Consumer
from berth.domain.inventory.resources import ResourceClass, Trait
from berth.domain.ledger.audit_trail import NO_ENTRIES, AuditEntry, chain
from berth.domain.ledger.record import (
    KINDS,
    RECORD_TYPES,
    Kind,
    PendingRequest,
    Record,
    key_of,
    kind_of,
)
from berth.domain.zones.zone import RemoteInstance, RemoteInstanceStage, Zone
from berth.testing.builders import make_action, make_migration, make_uuid
from berth.testing.fleets import Box, asking, resident, zone

BOX = Box("h")
RECORDS: dict[Kind, tuple[Record, str]] = {
    Kind.HOST: (BOX.host, "h/h"),
    Kind.SERVICE: (BOX.service, "h"),
    Kind.PROVIDER: (BOX.provider, "h/h"),
    Kind.AGGREGATE: (zone("az1", number=7), "7"),
    Kind.SERVER_GROUP: (ServerGroup("g", "n", GroupPolicy.AFFINITY), "g"),
    Kind.FLAVOR: (Flavor("42", "n", 1, 1), "42"),
    Kind.INSTANCE: (resident("i", BOX), "i"),
    Kind.PENDING_REQUEST: (PendingRequest(asking(), 0.0), "req-1"),
    Kind.CONSUMER: (Consumer("c", "p", "u"), "c"),
    Kind.RESOURCE_CLASS: (ResourceClass("CUSTOM_A", 1), "CUSTOM_A"),
    Kind.TRAIT: (Trait("CUSTOM_B", 1), "CUSTOM_B"),
    Kind.MIGRATION: (make_migration(7), make_uuid("migration", 7)),
    Kind.ACTION: (make_action(3), f"{make_uuid('instance', 1)} req-3"),
    Kind.QUOTA: (Quota("p", instances=3), "p"),
    Kind.HOST_IDENTITY: (HostIdentity("host-1", (HostKey("A" * 43 + "=", 1.0),)), "host-1"),
    Kind.FLAVOR_ACCESS: (FlavorAccess("42"), "42"),
    Kind.MAINTENANCE: (Maintenance("host-1", "new disk"), "host-1"),
    Kind.SERVER_IMAGE: (ServerImage("m", "n", "p", "u", "i"), "m"),
    Kind.AUDIT_BLOCK: (chain(NO_ENTRIES, [AuditEntry(1, "op")]), "0" * 18 + "1"),
    Kind.KEY_RING: (KeyRing("u"), "u"),
    Kind.ZONE: (Zone(7, "west", "http://west"), "7"),
    Kind.REMOTE_INSTANCE: (
        RemoteInstance("i", 7, RemoteInstanceStage.THERE, "p", "u", "r", "req"),
        "i",
    ),
    Kind.DECISION: (Decision("req-1", Verdict.PLACED, "p", "h", "d", 0, 0, 0.0, 0), "req-1"),
}


def test_every_kind_has_a_type_and_every_record_a_kind_and_a_key() -> None:
    """Every kind has a record type, and every record has its kind and its key."""
    assert set(RECORD_TYPES) == set(KINDS.values()) == set(Kind) == set(RECORDS)
    assert {kind: (kind_of(record), key_of(record)) for kind, (record, _) in RECORDS.items()} == {
        kind: (kind, key) for kind, (_, key) in RECORDS.items()
    }
