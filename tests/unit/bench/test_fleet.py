"""The measured fleet equals that of the peer."""

import runpy
from pathlib import Path

from bench.fleet import FLAVOR, INVENTORIES, fleet, request, snapshot, used_of
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU

ROOT = Path(__file__).parents[3]
PEER = runpy.run_path(str(ROOT / "bench" / "peers" / "nova_peer.py"), run_name="nova_peer")
FLEET = PEER["FLEET"]
USED = {VCPU: "vcpus_used", MEMORY_MB: "memory_used_mb", DISK_GB: "disk_used_gb"}
SIZES = {
    VCPU: ("vcpus", "cpu_allocation_ratio"),
    MEMORY_MB: ("memory_mb", "ram_allocation_ratio"),
    DISK_GB: ("disk_gb", "disk_allocation_ratio"),
}


def test_what_is_used_follows_the_formulas_of_the_peer() -> None:
    """The usage of each host equals the result of the peer's formulas."""
    for index in (0, 1, 2, 96, 97, 191, 1_009, 99_999):
        names = {"k": index + FLEET["seed"]}
        wanted = {name: eval(FLEET[key], {}, names) for name, key in USED.items()}  # noqa: S307
        assert used_of(index) == {name: amount for name, amount in wanted.items() if amount}


def test_inventories_are_those_of_the_peer() -> None:
    """Totals, ratios and reservations equal those of the peer."""
    for name, (total, ratio) in SIZES.items():
        inventory = INVENTORIES[name]
        assert (inventory.total, inventory.allocation_ratio) == (FLEET[total], FLEET[ratio])
        assert inventory.reserved == FLEET["reserved"]


def test_the_request_is_that_of_the_peer() -> None:
    """The flavor and the image properties equal those of the peer."""
    asked = PEER["REQUEST"]
    assert (FLAVOR.vcpus, FLAVOR.memory_mb, FLAVOR.root_gb) == (
        asked["vcpus"],
        asked["memory_mb"],
        asked["disk_gb"],
    )
    image = request("a").image
    assert image is not None
    assert image.properties == asked["image_properties"]


def test_a_snapshot_has_three_records_a_host() -> None:
    """Hosts, providers and services of a snapshot match one another."""
    state = snapshot(3)
    assert [host.name for host in state.hosts] == ["host-000000", "host-000001", "host-000002"]
    assert [host.uuid for host in state.hosts] == [one.uuid for one in state.providers]
    assert [host.name for host in state.hosts] == [one.host for one in state.services]
    assert next(fleet(1)).host == state.hosts[0]


def test_a_request_has_one_uuid_an_instance() -> None:
    """Two requests have different instance uuids."""
    first, second = request("a", 5), request("b", 5)
    assert len({*first.instance_uuids, *second.instance_uuids}) == 10
