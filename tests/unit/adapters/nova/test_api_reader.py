"""The reader of Nova's and Placement's APIs: records, and what it cannot tell."""

import pytest

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.flavor import Flavor, FlavorAccess, Image
from berth.domain.compute.host import Service
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.observed import is_observed
from berth.domain.compute.quota import CLASS_DEFAULT, Quota
from berth.domain.compute.server_group import GroupPolicy
from berth.domain.errors import InvalidInputError
from berth.domain.inventory.resources import Inventory
from berth.ports.nova import ImportKind, NovaCloud
from tests.unit.adapters.nova.openstack import (
    AGGREGATE,
    GPU,
    GROUP,
    HOST,
    MOVE,
    SERVER,
    OpenStack,
    server,
)


async def read(cloud: OpenStack) -> NovaCloud:
    """Read a cloud."""
    reader = cloud.reader()
    try:
        return await reader.read()
    finally:
        await reader.close()


async def only_server(**changes: object) -> tuple[Instance | None, list[str]]:
    """Return the server of a cloud as read, and the reasons of the findings about it."""
    cloud = OpenStack()
    cloud.compute["/servers/detail"] = {"servers": [server(**changes)]}
    found = await read(cloud)
    reasons = [one.reason for one in found.findings if one.kind is ImportKind.SERVER]
    return (found.servers[0] if found.servers else None), reasons


async def test_hosts_and_services_are_read() -> None:
    """A compute node is an observed host; its service is forced down and keeps Nova's reason."""
    found = await read(OpenStack())
    (host,) = found.hosts
    assert (host.uuid, host.name, host.node) == (HOST, "c1", "c1.example")
    assert (host.hypervisor_type, host.host_ip) == ("QEMU", "192.0.2.1")
    assert host.cpu_info == {"arch": "x86_64"}
    assert is_observed(host)
    expected = Service("c1", "s-1", disabled=True, disabled_reason="new disk", forced_down=True)
    assert found.services == (expected,)


async def test_flavors_aggregates_and_groups_are_read() -> None:
    """They become the same records that Berth's own API would create."""
    found = await read(OpenStack())
    specs = {"hw:cpu_policy": "shared"}
    small = Flavor("f1", "small", 2, 2048, 20, extra_specs=specs, is_public=False)
    assert found.flavors == (small,)
    assert found.flavor_accesses == (FlavorAccess("f1", ("p1",)),)
    zone = {"availability_zone": "az1"}
    fast = Aggregate(7, AGGREGATE, "fast", frozenset({"c1"}), zone, 1767225600.0)
    assert found.aggregates == (fast,)
    (group,) = found.server_groups
    assert (group.uuid, group.policy) == (GROUP, GroupPolicy.ANTI_AFFINITY)
    assert group.max_server_per_host == 2
    assert found.members == {GROUP: (SERVER,)}


async def test_a_server_is_read_with_its_embedded_flavor() -> None:
    """All that Nova shows of a server is in the record, and no task is."""
    instance, _ = await only_server()
    assert instance is not None
    assert is_observed(instance)
    assert (instance.status, instance.task) == (Status.ACTIVE, None)
    assert (instance.host, instance.node) == ("c1", "c1.example")
    assert (instance.flavor.flavor_id, instance.flavor.vcpus) == ("f1", 2)
    assert instance.image == Image("image-1", properties={"hw_disk_bus": "virtio"})
    assert instance.requested_zone == "az1"
    assert instance.hints == {"same_host": (SERVER,), "query": ("[]",)}
    assert instance.metadata == {"role": "web"}
    assert instance.extra["tags"] == ["blue"]
    assert instance.extra["key_name"] == "key"
    assert instance.extra["locked"] == "in use"
    assert instance.extra["has_config_drive"] is True
    assert (instance.created_at_s, instance.launched_at_s) == (1767323045.0, 1767323075.0)
    assert instance.reservation_id == "r-abcdefgh"


async def test_providers_and_allocations_are_read() -> None:
    """The tree has its inventories, traits and aggregates, and each consumer its owner and type."""
    found = await read(OpenStack())
    root, gpu = found.providers
    assert root.inventories["VCPU"] == Inventory(8, max_unit=8, allocation_ratio=2.0)
    assert root.traits == {"HW_CPU_X86_AVX2", "CUSTOM_FAST"}
    assert root.aggregates == (AGGREGATE,)
    assert (gpu.uuid, gpu.parent_uuid) == (GPU, HOST)
    held = {one.consumer.uuid: one for one in found.holdings}
    assert held[SERVER].allocations == {
        HOST: {"VCPU": 2, "MEMORY_MB": 2048},
        GPU: {"VGPU": 1},
    }
    assert held[MOVE].consumer.consumer_type == "MIGRATION"
    assert (found.resource_classes, found.traits) == (("CUSTOM_GOLD",), ("CUSTOM_FAST",))


async def test_quotas_that_equal_the_default_are_inherited() -> None:
    """The API shows effective limits, so only those that differ are limits of the project."""
    found = await read(OpenStack())
    default = Quota(CLASS_DEFAULT, instances=10, vcpus=20, memory_mb=51200)
    assert found.quotas == (default, Quota("p1", vcpus=40))


async def test_key_pairs_are_read_of_users_with_servers() -> None:
    """Users without servers are not known to Nova's API, which a finding says."""
    found = await read(OpenStack())
    (ring,) = found.key_rings
    assert ring.user_id == "u1"
    assert [pair.name for pair in ring.key_pairs] == ["key"]
    assert any(one.kind is ImportKind.KEY_PAIRS for one in found.findings)


@pytest.mark.parametrize(
    ("changes", "status", "reason"),
    [
        ({"OS-EXT-STS:vm_state": "stopped"}, Status.SHUTOFF, "locked"),
        ({"OS-EXT-STS:vm_state": "resized"}, Status.RESIZED, "confirmation of a resize"),
        ({"OS-EXT-STS:task_state": "rebuilding"}, Status.ACTIVE, "task 'rebuilding'"),
        ({"addresses": {"net": []}}, Status.ACTIVE, "ports of Neutron"),
        ({"os-extended-volumes:volumes_attached": [{"id": "v"}]}, Status.ACTIVE, "volumes"),
        ({"OS-EXT-STS:vm_state": "building"}, None, "is being built"),
        ({"OS-EXT-STS:vm_state": "odd"}, None, "vm_state 'odd'"),
    ],
)
async def test_what_a_server_record_cannot_say_is_a_finding(
    changes: dict[str, object], status: Status | None, reason: str
) -> None:
    """States without a counterpart are reported with a reason instead of guessed."""
    instance, reasons = await only_server(**changes)
    assert (instance.status if instance else None) is status
    assert any(reason in one for one in reasons)


async def test_what_an_older_nova_hides_is_a_finding() -> None:
    """Before 2.96, 2.98 and 2.100, servers have no zone, no image properties and no hints."""
    cloud = OpenStack()
    cloud.compute["/"] = {"version": {"version": "2.90"}}
    shown = server()
    for name in ("pinned_availability_zone", "scheduler_hints"):
        del shown[name]
    cloud.compute["/servers/detail"] = {"servers": [shown]}
    found = await read(cloud)
    reasons = " ".join(one.reason for one in found.findings)
    assert "before 2.96" in reasons
    assert "before 2.98" in reasons
    assert "before 2.100" in reasons
    versions = {one.headers["OpenStack-API-Version"] for one in cloud.requests}
    assert "compute 2.90" in versions
    assert "compute 2.100" not in versions


async def test_a_nova_that_is_too_old_is_refused() -> None:
    """The message names the version that is needed, and the databases as the other way."""
    cloud = OpenStack()
    cloud.compute["/"] = {"version": {"version": "2.60"}}
    with pytest.raises(InvalidInputError, match=r"2\.60.*2\.64.*--from-db"):
        await read(cloud)


async def test_a_deleted_flavor_is_named_after_its_original() -> None:
    """The API tells only the name of a server's flavor."""
    gone = server()["flavor"] | {"original_name": "old"}
    instance, reasons = await only_server(flavor=gone)
    assert instance is not None
    assert instance.flavor.flavor_id == "old"
    assert any("flavor that is deleted" in one for one in reasons)


async def test_nothing_is_written_to_nova() -> None:
    """Without Keystone, every request is a GET."""
    cloud = OpenStack()
    await read(cloud)
    assert {one.method for one in cloud.requests} == {"GET"}
    (listed,) = (
        one
        for one in cloud.requests
        if one.url.path.endswith("/servers/detail") and "marker" not in one.url.params
    )
    assert listed.url.params["all_tenants"] == "True"
    assert listed.url.params["soft_deleted"] == "True"
