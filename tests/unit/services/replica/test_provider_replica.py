"""Tests for the provider replica: a table and a vocabulary that follow the feed."""

from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import VCPU, Inventory, ResourceClass, StandardNames, Trait
from berth.domain.ledger.change import Change, HostsAlive, RecordRemoved, Snapshot, Usage
from berth.domain.ledger.record import Kind
from berth.services.replica.provider_replica import ProviderReplica

STANDARD = StandardNames((VCPU,), ("HW_A",))


def test_a_snapshot_is_where_it_starts() -> None:
    """A snapshot sets the providers, classes, traits and version."""
    replica = ProviderReplica(STANDARD)
    provider = Provider("u", "n", inventories={VCPU: Inventory(4)})
    replica.load(
        Snapshot(
            version=7,
            now_s=0.0,
            providers=(provider,),
            resource_classes=(ResourceClass("CUSTOM_A", 1),),
            traits=(Trait("CUSTOM_B", 1),),
        )
    )
    assert replica.table.version == 7
    assert replica.table.row_of("u") is not None
    assert replica.vocabulary.classes.all() == [VCPU, "CUSTOM_A"]
    assert replica.vocabulary.find_traits() == ["HW_A", "CUSTOM_B"]


def test_events_are_applied() -> None:
    """Events of providers, classes and traits are applied; others only advance the version."""
    replica = ProviderReplica(STANDARD)
    provider = Provider("u", "n", generation=2, inventories={VCPU: Inventory(4)})
    replica.apply(
        [
            Change(1, provider),
            Change(1, ResourceClass("CUSTOM_A", 1)),
            Change(1, Trait("CUSTOM_B", 1)),
            Change(2, Usage("u", {VCPU: 3}, 5)),
            Change(3, HostsAlive((), 0.0)),
        ]
    )
    row = replica.table.row_of("u")
    assert row is not None
    assert replica.table.version == 3
    assert (replica.table.used(row), replica.table.generations.item(row)) == ({VCPU: 3}, 5)
    assert replica.vocabulary.classes.is_known("CUSTOM_A")
    assert replica.vocabulary.traits.is_known("CUSTOM_B")
    replica.apply(
        [
            Change(4, RecordRemoved(Kind.PROVIDER, "u")),
            Change(4, RecordRemoved(Kind.RESOURCE_CLASS, "CUSTOM_A")),
            Change(4, RecordRemoved(Kind.TRAIT, "CUSTOM_B")),
            Change(4, RecordRemoved(Kind.HOST, "u")),
        ]
    )
    assert replica.table.row_of("u") is None
    assert replica.vocabulary.classes.all() == [VCPU]
    assert replica.vocabulary.find_traits() == ["HW_A"]


def test_usage_by_an_older_berth_leaves_the_generation() -> None:
    """A usage event without a generation keeps the provider's generation."""
    replica = ProviderReplica(STANDARD)
    replica.apply([Change(1, Provider("u", "n", generation=2)), Change(2, Usage("u", {}))])
    row = replica.table.row_of("u")
    assert row is not None
    assert replica.table.generations.item(row) == 2
