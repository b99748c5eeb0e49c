"""Tests for the known resource classes and traits and their order."""

from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory, ResourceClass, StandardNames, Trait
from berth.tables.provider.providers import ProviderTable
from berth.tables.vocabulary import Vocabulary

STANDARD = StandardNames(("VCPU", "DISK_GB"), ("HW_B", "HW_A"))


def vocabulary() -> Vocabulary:
    """Return a vocabulary with names of all origins."""
    table = ProviderTable()
    inventories = {"CUSTOM_Z": Inventory(1), "CUSTOM_B": Inventory(1), "VCPU": Inventory(1)}
    traits = frozenset(("CUSTOM_Y", "CUSTOM_T", "HW_A"))
    table.put(Provider("u", "n", inventories=inventories, traits=traits))
    known = Vocabulary(STANDARD, table)
    for number, name in enumerate(("CUSTOM_Q", "CUSTOM_B"), 5):
        known.put(ResourceClass(name, number))
        known.put(Trait(name, -number))
    return known


def test_names_are_standard_then_made_then_in_use() -> None:
    """Standard names come in their order, created ones by number, and the rest by name."""
    known = vocabulary()
    assert known.classes.all() == ["VCPU", "DISK_GB", "CUSTOM_Q", "CUSTOM_B", "CUSTOM_Z"]
    assert known.find_traits() == ["HW_B", "HW_A", "CUSTOM_B", "CUSTOM_Q", "CUSTOM_T", "CUSTOM_Y"]
    assert known.classes.in_order(["NEW", "CUSTOM_B", "VCPU", "CUSTOM_Q"]) == [
        *("VCPU", "CUSTOM_Q", "CUSTOM_B", "NEW")
    ]
    assert known.traits.in_order(["A", "CUSTOM_Q", "HW_A", "HW_B"]) == [
        "HW_B",
        "HW_A",
        "CUSTOM_Q",
        "A",
    ]


def test_a_name_is_known_whatever_it_is_of() -> None:
    """Names of any origin are known; a name without one is not."""
    known = vocabulary()
    assert all(map(known.classes.is_known, known.classes.all()))
    assert all(map(known.traits.is_known, known.find_traits()))
    assert not known.classes.is_known("CUSTOM_T")
    assert not known.traits.is_known("CUSTOM_Z")
    assert [known.classes.is_standard(name) for name in ("VCPU", "CUSTOM_Q")] == [True, False]
    assert [known.traits.is_standard(name) for name in ("HW_A", "CUSTOM_Q")] == [True, False]


def test_traits_are_chosen() -> None:
    """Traits are selected by prefix, from a list, by use, and by all of these."""
    known = vocabulary()
    assert known.find_traits("HW_") == ["HW_B", "HW_A"]
    assert known.find_traits(among=("CUSTOM_Q", "HW_A", "NEW", "HW_A")) == ["HW_A", "CUSTOM_Q"]
    assert known.find_traits(associated=True) == ["HW_A", "CUSTOM_T", "CUSTOM_Y"]
    assert known.find_traits(associated=False) == ["HW_B", "CUSTOM_B", "CUSTOM_Q"]
    assert known.find_traits("CUSTOM_", ("CUSTOM_T", "HW_A", "CUSTOM_Q"), associated=True) == [
        "CUSTOM_T"
    ]


def test_a_name_that_is_no_longer_used_is_dropped() -> None:
    """A removed record's name is dropped unless it is standard or in use."""
    known = vocabulary()
    for name in ("CUSTOM_Q", "CUSTOM_Q", "CUSTOM_B", "VCPU"):
        known.remove_class(name)
        known.remove_trait(name)
    assert known.classes.all() == ["VCPU", "DISK_GB", "CUSTOM_B", "CUSTOM_Z"]
    assert known.find_traits("CUSTOM_") == ["CUSTOM_T", "CUSTOM_Y"]
    assert not known.classes.records
    assert not known.traits.records


def test_a_record_of_a_standard_name_changes_nothing() -> None:
    """A record of a standard name changes nothing."""
    known = vocabulary()
    before = known.classes.all(), known.find_traits()
    known.put(ResourceClass("DISK_GB", 1))
    known.put(Trait("HW_A", 1))
    assert (known.classes.all(), known.find_traits()) == before
