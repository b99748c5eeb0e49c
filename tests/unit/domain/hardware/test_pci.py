"""Tests for the devices that flavors request and for the aliases of a policy."""

from collections.abc import Sequence

import pytest

from berth.domain.errors import InvalidInputError
from berth.domain.hardware.pci import (
    DeviceNeed,
    DeviceType,
    NumaPolicy,
    PciAlias,
    PciPool,
    PciSpec,
    aliases_of,
    device_needs,
)

GPU = {"name": "gpu", "vendor_id": "10DE", "product_id": "1eb8"}


def test_a_flavor_asks_for_devices_by_alias() -> None:
    """Each entry of the alias list is a separate need, in the order of the list."""
    specs = {"pci_passthrough:alias": "gpu:2, nic:1,gpu:1"}
    assert device_needs(specs, None) == (
        DeviceNeed("gpu", 2),
        DeviceNeed("nic", 1),
        DeviceNeed("gpu", 1),
    )
    assert device_needs({}, NumaPolicy.SOCKET) == ()


@pytest.mark.parametrize(
    "text", ["", "gpu", "gpu:", ":1", "gpu:0", "gpu:-1", "gpu:257", "a:200,b:99"]
)
def test_devices_that_cannot_be_read_are_refused(text: str) -> None:
    """Each count must be between 1 and 256, and so must their sum."""
    with pytest.raises(InvalidInputError, match="pci_passthrough:alias"):
        device_needs({"pci_passthrough:alias": text}, None)


def test_aliases_of_one_name_are_alternatives() -> None:
    """Aliases of one name become alternatives, sorted by name, with ids in lower case."""
    nic = {
        "name": "nic",
        "vendor_id": "8086",
        "product_id": "154c",
        "device_type": "type-VF",
        "numa_policy": "required",
        "live_migratable": "yes",
    }
    other = {**GPU, "product_id": "1eb9"}
    assert aliases_of([nic, GPU, other]) == (
        PciAlias("gpu", (PciSpec("10de", "1eb8"), PciSpec("10de", "1eb9"))),
        PciAlias(
            "nic",
            (PciSpec("8086", "154c", DeviceType.VIRTUAL, live_migratable=True),),
            NumaPolicy.REQUIRED,
        ),
    )


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ([{**GPU, "colour": "red"}], r"pci_aliases\[0\].colour"),
        ([{"name": "x", "vendor_id": "10de"}], r"pci_aliases\[0\].product_id: is required"),
        ([{**GPU, "name": " "}], r"pci_aliases\[0\].name"),
        ([GPU, {**GPU, "vendor_id": "nvidia"}], r"pci_aliases\[1\].vendor_id"),
        ([{**GPU, "device_type": "gpu"}], "type-PCI, type-PF, type-VF, vdpa"),
        ([{**GPU, "numa_policy": "close"}], "required, legacy, preferred, socket"),
        ([{**GPU, "live_migratable": "perhaps"}], "'true' or 'false'"),
        ([GPU, {**GPU, "numa_policy": "socket"}], "gpu has a different numa_policy"),
        ([GPU, {**GPU, "device_type": "type-VF"}], "gpu has a different device_type"),
    ],
)
def test_aliases_that_cannot_be_read_are_refused(
    tables: Sequence[dict[str, str]], said: str
) -> None:
    """An unreadable alias is refused with its table and key in the message."""
    with pytest.raises(ValueError, match=said):
        aliases_of(tables)


def test_a_key_tells_pools_of_a_host_apart() -> None:
    """The key of a pool covers all fields except the count; the order of tags does not matter."""
    pool = PciPool("8086", "154c", tags={"b": "2", "a": "1"}, numa_node=0)
    same = PciPool("8086", "154c", tags={"a": "1", "b": "2"}, numa_node=0, count=7)
    assert pool.key == same.key == "8086/154c/type-PCI/0//a=1,b=2"
    assert PciPool("8086", "154c").key == "8086/154c/type-PCI///"
