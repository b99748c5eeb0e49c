"""Tests for provider records, whose equal parts are one object."""

from dataclasses import replace

from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory
from berth.tables.provider.provider_records import ProviderRecords


def provider(uuid: str) -> Provider:
    """Return a provider made of new objects."""
    return Provider(
        uuid,
        uuid,
        "parent",
        generation=7,
        inventories={"VCPU": Inventory(4), "DISK_GB": Inventory(9)},
        used={"VCPU": 1},
        traits=frozenset(("A", "B")),
        aggregates=("x",),
        owned_traits=frozenset(("A", "B")),
        owned_classes=frozenset(("VCPU",)),
    )


def test_equal_parts_of_several_are_one_object() -> None:
    """Equal inventories, traits and aggregates of several records are one object."""
    records = ProviderRecords()
    one, two = (records.put(row, provider(str(row)), "parent") for row in range(2))
    assert one.inventories is two.inventories
    assert one.traits is two.traits is one.owned_traits
    assert one.aggregates is two.aggregates
    assert one.owned_classes is two.owned_classes


def test_a_record_says_nothing_of_what_changes_with_claims() -> None:
    """A stored record has no used amounts and no generation, as claims change them."""
    records = ProviderRecords()
    kept = records.put(0, provider("a"), "parent")
    assert kept == replace(provider("a"), generation=0, used={})
    assert records.get(0) is kept


def test_what_is_told_again_stays_the_same_object() -> None:
    """A record that is put again unchanged stays the same object.

    The order of inventories and the generation do not matter.
    """
    records = ProviderRecords()
    kept = records.put(0, provider("a"), "parent")
    turned = dict(reversed(list(provider("a").inventories.items())))
    assert records.put(0, replace(provider("a"), inventories=turned), "parent") is kept
    assert records.put(0, replace(provider("a"), generation=8, used={}), "parent") is kept
    assert records.put(0, replace(provider("a"), name="b"), "parent") is not kept


def test_a_row_without_record_has_none() -> None:
    """A row without a record returns None, and clearing a row twice changes nothing."""
    records = ProviderRecords()
    assert records.get(0) is records.get(-1) is None
    records.put(0, provider("a"), "parent")
    records.clear(0)
    records.clear(0)
    assert records.get(0) is None
