"""Tests for choosing the devices that an instance gets."""

import pytest

from berth.domain.errors import InvalidInputError
from berth.domain.hardware.pci import (
    DeviceNeed,
    DeviceType,
    NumaPolicy,
    PciPool,
    aliases_of,
)
from berth.scheduling.hardware.device_fit import (
    DeviceDemand,
    NearCells,
    device_demands,
    give_devices,
)
from berth.tables.host.pci import FreePool, PciDevices

GPU = {"name": "gpu", "vendor_id": "10de", "product_id": "1eb8"}
NIC = {"name": "nic", "vendor_id": "8086", "product_id": "154c", "device_type": "type-VF"}
PORT = {**NIC, "name": "port", "device_type": "type-PF"}
ALIASES = aliases_of([GPU, NIC, PORT])
VF, PF = DeviceType.VIRTUAL, DeviceType.PHYSICAL


def free(*pools: PciPool) -> tuple[FreePool, ...]:
    """Return the free devices of unused pools."""
    devices = PciDevices(1)
    devices.put(0, pools)
    return devices.pools(0)


def asked(*needs: DeviceNeed) -> tuple[DeviceDemand, ...]:
    """Return the demands of these needs."""
    return device_demands(needs, ALIASES)


def counts(
    pools: tuple[FreePool, ...], *needs: DeviceNeed, near: NearCells | None = None
) -> dict[str, int] | None:
    """Return the number of devices given by address, or None if there are too few."""
    shares = give_devices(pools, asked(*needs), near)
    if shares is None:
        return None
    address_of = {pool.key: pool.pool.address for pool in pools}
    return {address_of[share.pool]: share.count for share in shares}


def test_an_alias_that_the_policy_has_not_is_refused() -> None:
    """An alias that the policy does not define is refused with the defined ones."""
    with pytest.raises(InvalidInputError, match=r"no alias 'fpga' \(it has gpu, nic, port"):
        asked(DeviceNeed("fpga", 1))
    with pytest.raises(InvalidInputError, match="it has none"):
        device_demands((DeviceNeed("fpga", 1),), ())


def test_devices_come_from_several_pools() -> None:
    """Devices are taken from several pools, plain pools first."""
    pools = free(
        PciPool("10de", "1eb8", address="b", tags={"rack": "1"}, count=3),
        PciPool("10DE", "1EB8", address="a", count=1),
    )
    assert counts(pools, DeviceNeed("gpu", 2)) == {"a": 1, "b": 1}
    assert counts(pools, DeviceNeed("gpu", 4)) == {"a": 1, "b": 3}
    assert counts(pools, DeviceNeed("gpu", 5)) is None


def test_special_devices_go_only_to_who_names_their_type() -> None:
    """Special device types are given only to aliases that name them, remote-managed ones never."""
    remote = {"remote_managed": "true"}
    pools = free(
        PciPool("10de", "1eb8", PF, address="a"),
        PciPool("10de", "1eb8", DeviceType.VDPA, address="b"),
        PciPool("10de", "1eb8", VF, address="c", tags=remote),
        PciPool("10de", "1eb8", VF, address="d", tags={"remote_managed": "false"}),
    )
    assert counts(pools, DeviceNeed("gpu", 1)) == {"d": 1}
    assert counts(pools, DeviceNeed("gpu", 2)) is None


def test_a_physical_function_excludes_its_virtual_ones_within_a_request() -> None:
    """A physical function and its virtual functions exclude each other within a request."""
    pools = free(PciPool("8086", "154c", PF, address="a"), PciPool("8086", "154c", VF, address="a"))
    assert counts(pools, DeviceNeed("port", 1)) == {"a": 1}
    assert counts(pools, DeviceNeed("port", 1), DeviceNeed("nic", 1)) is None
    assert counts(pools, DeviceNeed("nic", 1), DeviceNeed("port", 1)) is None
    more = free(*(pool.pool for pool in pools), PciPool("8086", "154c", VF, address="b"))
    assert counts(more, DeviceNeed("port", 1), DeviceNeed("nic", 1)) == {"a": 1, "b": 1}


ANY = {"name": "any", "vendor_id": "10de", "product_id": "1eb8"}
ANY_OTHER = {**ANY, "product_id": "2222"}
T4 = {**ANY, "name": "t4"}


@pytest.mark.parametrize("order", [("any", "t4"), ("t4", "any")])
def test_the_order_of_aliases_does_not_matter(order: tuple[str, str]) -> None:
    """An alias with alternatives leaves the only device of another alias to that one."""
    pools = free(PciPool("10de", "1eb8", address="a"), PciPool("10de", "2222", address="b"))
    demands = device_demands(
        [DeviceNeed(alias, 1) for alias in order], aliases_of([ANY, ANY_OTHER, T4])
    )
    shares = give_devices(pools, demands, None)
    assert shares is not None
    address_of = {pool.key: pool.pool.address for pool in pools}
    assert {share.alias: address_of[share.pool] for share in shares} == {"t4": "a", "any": "b"}


@pytest.mark.parametrize("order", [("port", "nic"), ("nic", "port")])
def test_physical_functions_leave_virtual_ones_to_others(order: tuple[str, str]) -> None:
    """Of several addresses, some serve as physical functions and the others as virtual ones."""
    pools = free(
        *(PciPool("8086", "154c", PF, address=str(number)) for number in range(3)),
        *(PciPool("8086", "154c", VF, address=str(number), count=4) for number in range(3)),
    )
    wanted = {"port": 2, "nic": 4}
    needs = [DeviceNeed(alias, wanted[alias]) for alias in order]
    shares = give_devices(pools, asked(*needs), None)
    assert shares is not None
    assert sum(share.count for share in shares) == 6
    assert give_devices(pools, asked(*needs, DeviceNeed("nic", 1)), None) is None


def test_many_physical_functions_are_matched_quickly() -> None:
    """Addresses that serve the same demands are counted, not tried one by one."""
    pools = free(
        *(PciPool("8086", "154c", PF, address=str(number)) for number in range(60)),
        *(PciPool("8086", "154c", VF, address=str(number), count=2) for number in range(60)),
    )
    fits = asked(DeviceNeed("nic", 60), DeviceNeed("port", 30))
    assert give_devices(pools, fits, None) is not None
    assert give_devices(pools, asked(DeviceNeed("nic", 61), DeviceNeed("port", 30)), None) is None


def test_unusable_near_devices_do_not_hide_far_ones() -> None:
    """`preferred` goes on to far devices if those near are not for this alias."""
    pools = free(
        PciPool("10de", "1eb8", PF, numa_node=0, address="near"),
        PciPool("10de", "1eb8", numa_node=1, address="far"),
    )
    near = NearCells(frozenset({0}), None)
    assert counts(pools, DeviceNeed("gpu", 1, NumaPolicy.PREFERRED), near=near) == {"far": 1}
    assert counts(pools, DeviceNeed("gpu", 1, NumaPolicy.LEGACY), near=near) is None


NEAR = PciPool("10de", "1eb8", numa_node=0, address="near")
BESIDE = PciPool("10de", "1eb8", numa_node=1, address="beside")
FAR = PciPool("10de", "1eb8", numa_node=2, address="far")
NOWHERE = PciPool("10de", "1eb8", address="nowhere")


@pytest.mark.parametrize(
    ("policy", "count", "addresses"),
    [
        (NumaPolicy.REQUIRED, 1, {"near"}),
        (NumaPolicy.REQUIRED, 2, None),
        (NumaPolicy.SOCKET, 1, {"near"}),
        (NumaPolicy.SOCKET, 2, {"near", "beside"}),
        (NumaPolicy.SOCKET, 3, None),
        (NumaPolicy.LEGACY, 1, {"near"}),
        (NumaPolicy.LEGACY, 2, {"near", "nowhere"}),
        (NumaPolicy.LEGACY, 3, None),
        (NumaPolicy.PREFERRED, 1, {"near"}),
        (NumaPolicy.PREFERRED, 2, {"near", "nowhere"}),
        (NumaPolicy.PREFERRED, 4, {"near", "nowhere", "beside", "far"}),
        (NumaPolicy.PREFERRED, 5, None),
    ],
)
def test_policies_say_how_near(policy: NumaPolicy, count: int, addresses: set[str] | None) -> None:
    """The NUMA policy decides which devices are near enough and in which order."""
    pools = free(FAR, BESIDE, NOWHERE, NEAR)
    near = NearCells(frozenset({0}), frozenset({0, 1}))
    found = counts(pools, DeviceNeed("gpu", count, policy), near=near)
    assert (None if found is None else set(found)) == addresses


def test_sockets_that_are_unknown_are_nobodys() -> None:
    """Without known sockets the policy `socket` accepts only the guest's own cell."""
    pools, near = free(BESIDE, NEAR), NearCells(frozenset({0}), None)
    assert counts(pools, DeviceNeed("gpu", 1, NumaPolicy.SOCKET), near=near) == {"near": 1}
    assert counts(pools, DeviceNeed("gpu", 2, NumaPolicy.SOCKET), near=near) is None


def test_live_migration_is_asked_for_or_not() -> None:
    """An alias may require devices with or without live migration, or accept both."""
    tagged = [PciPool("10de", "1eb8", tags={"live_migratable": text}) for text in ("true", "false")]
    pools = free(*tagged, PciPool("10de", "1eb8"))
    for said, count in (("true", 1), ("false", 1), (None, 3)):
        table = GPU if said is None else {**GPU, "live_migratable": said}
        enough = device_demands((DeviceNeed("gpu", count),), aliases_of([table]))
        more = device_demands((DeviceNeed("gpu", count + 1),), aliases_of([table]))
        assert give_devices(pools, enough, None) is not None
        assert give_devices(pools, more, None) is None
