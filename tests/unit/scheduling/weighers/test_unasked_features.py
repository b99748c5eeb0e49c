"""Tests for UnaskedFeaturesWeigher."""

from dataclasses import replace

from berth.domain.compute.flavor import Flavor
from berth.domain.hardware.pci import DeviceType, PciPool
from berth.domain.inventory.resources import Inventory
from berth.scheduling.weighers import unasked_features
from berth.tables.host.feed import apply_event
from berth.testing.fleets import GPU_MILLI, Box, asking, gpus, sized, snapshot_of
from tests.unit.scheduling.conftest import Ask

PLAIN = Box("plain")
FAST = Box("fast", traits=frozenset({"CUSTOM_FAST", "CUSTOM_NVME", "HW_CPU_X86_AVX"}))
GPUS = Box("gpus", children=gpus(1000, 1000))
BOXES = [PLAIN, FAST, GPUS]


def specs(**given: str) -> dict[str, str]:
    """Return extra specs, with `__` replaced by a colon."""
    return {key.replace("__", ":"): value for key, value in given.items()}


def test_traits_of_the_operator_and_devices_count(ask: Ask) -> None:
    """Custom traits and uncommon resource classes count; standard ones do not."""
    asked = ask(snapshot_of(BOXES), asking())
    assert asked.raw(unasked_features.build()) == [0.0, 2.0, 1.0]
    assert asked.shares(unasked_features.build(many=4)) == [0.0, 0.5, 0.25]
    assert asked.shares(unasked_features.build(many=1)) == [0.0, 1.0, 1.0]


def test_what_is_asked_for_does_not_count(ask: Ask) -> None:
    """Requested traits and classes do not count."""
    weigher = unasked_features.build()
    for asked in (
        specs(trait__CUSTOM_FAST="required"),
        {"berth:any_trait": "CUSTOM_FAST|CUSTOM_OTHER"},
        {"trait1:CUSTOM_FAST": "required", "resources1:VCPU": "1"},
    ):
        assert ask(snapshot_of(BOXES), asking(specs=asked)).raw(weigher) == [0.0, 1.0, 1.0]
    for asked in ({f"resources:{GPU_MILLI}": "100"}, {f"resources1:{GPU_MILLI}": "100"}):
        assert ask(snapshot_of(BOXES), asking(specs=asked)).raw(weigher) == [0.0, 2.0, 0.0]


def test_devices_that_are_all_taken_are_nothing_special(ask: Ask) -> None:
    """Devices without free amounts do not count."""
    boxes = [Box("taken", children=gpus(0)), Box("some", children=gpus(0, 10))]
    assert ask(snapshot_of(boxes), asking()).raw(unasked_features.build()) == [0.0, 1.0]


def test_pci_devices_count_until_one_is_asked_for(ask: Ask) -> None:
    """Free PCI devices count as a feature."""
    asked = ask(snapshot_of([PLAIN]), asking())
    pools = (PciPool("10de", "1eb8", DeviceType.STANDARD, 2),)
    apply_event(asked.hosts, replace(PLAIN.host, pci_pools=pools))
    assert asked.raw(unasked_features.build()) == [1.0]


def test_prefixes_and_common_classes_are_options(ask: Ask) -> None:
    """The trait prefixes and the common classes are options."""
    inventories = {**sized(), "CUSTOM_MILLI": Inventory(8)}
    boxes = [replace(FAST, inventories=inventories)]
    asked = ask(snapshot_of(boxes), asking(Flavor("1", "small", 1, 1)))
    assert asked.raw(unasked_features.build()) == [3.0]
    assert asked.raw(unasked_features.build(trait_prefixes=("HW_",))) == [2.0]
    assert asked.raw(unasked_features.build(trait_prefixes=())) == [1.0]
    common = ("VCPU", "MEMORY_MB", "DISK_GB", "CUSTOM_MILLI")
    assert asked.raw(unasked_features.build(common_classes=common)) == [2.0]


def test_a_trait_that_comes_later_counts(ask: Ask) -> None:
    """A trait that is added later counts."""
    asked = ask(snapshot_of([PLAIN]), asking())
    assert asked.raw(unasked_features.build()) == [0.0]
    apply_event(asked.hosts, replace(PLAIN.provider, traits=frozenset({"CUSTOM_NEW"})))
    assert asked.raw(unasked_features.build()) == [1.0]


def test_many_traits_are_counted(ask: Ask) -> None:
    """More than 64 traits are counted."""
    traits = frozenset(f"CUSTOM_{number}" for number in range(150))
    asked = ask(snapshot_of([replace(PLAIN, traits=traits)]), asking())
    assert asked.raw(unasked_features.build()) == [150.0]
    assert asked.shares(unasked_features.build()) == [1.0]


def test_its_name_and_scale() -> None:
    """The default multiplier is -1, and the floor is 0."""
    weigher = unasked_features.build()
    assert (weigher.name, weigher.multiplier) == ("UnaskedFeaturesWeigher", -1.0)
    assert (weigher.floor, weigher.ceiling) == (0.0, None)
