"""The readers of Nova's and Placement's databases: rows as records, with canned rows."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pytest

from berth.adapters.nova.api_database import read_api_database, request_facts, seconds
from berth.adapters.nova.cell_database import address_of, read_cell_database
from berth.adapters.nova.nova_tables import Row, checked_url, database_urls
from berth.adapters.nova.placement_database import read_placement_database
from berth.domain.compute.flavor import FlavorAccess, Image
from berth.domain.compute.instance import Status
from berth.domain.compute.observed import is_observed
from berth.domain.compute.quota import CLASS_DEFAULT, Quota
from berth.domain.compute.server_group import GroupPolicy
from berth.domain.errors import InvalidInputError
from berth.domain.inventory.resources import Inventory
from berth.ports.nova import ImportKind

_AT = datetime(2026, 1, 2, 3, 4, 5, 999)  # noqa: DTZ001 - Nova's databases store UTC without saying so
_SERVER = "10000000-0000-4000-8000-000000000001"


class Canned:
    """Answers each query with the rows of the table after FROM, the second time with none."""

    def __init__(self, **tables: list[dict[str, Any]]) -> None:
        self._tables = tables
        self._read = set[str]()

    async def rows(self, statement: str, **values: int | Sequence[str]) -> list[Row]:
        """Return the rows of a table; a query for further pages gets none."""
        table = statement.split(" FROM ", 1)[1].split(maxsplit=1)[0]
        if "last" in values and table in self._read:
            return []
        self._read.add(table)
        return [dict(row) for row in self._tables.get(table, [])]


def flavor_object(**changes: object) -> dict[str, object]:
    """Return a flavor as Nova serialises it."""
    data = {
        "flavorid": "f1",
        "name": "small",
        "vcpus": 2,
        "memory_mb": 2048,
        "root_gb": 20,
        "ephemeral_gb": 0,
        "swap": 0,
        "is_public": False,
        "extra_specs": {"a": "b"},
    }
    return {"nova_object.name": "Flavor", "nova_object.data": data | changes}


def instance_row(**changes: object) -> dict[str, object]:
    """Return a row of `instances`."""
    names = (
        "task_state kernel_id display_description user_data key_name access_ip_v4 access_ip_v6"
        " auto_disk_config locked_by hostname config_drive updated_at launched_at image_ref"
    )
    return dict.fromkeys(names.split()) | {
        "id": 1,
        "uuid": _SERVER,
        "display_name": "web",
        "project_id": "p1",
        "user_id": "u1",
        "vm_state": "active",
        "host": "c1",
        "node": "c1.example",
        "locked": False,
        "hidden": False,
        "reservation_id": "r-1",
        "launch_index": 0,
        "created_at": _AT,
        **changes,
    }


async def test_the_api_database_is_read() -> None:
    """Flavors, aggregates, groups, quotas, keys and requests become records."""
    tables = Canned(
        aggregates=[{"id": 7, "uuid": "a", "name": "fast", "created_at": _AT, "updated_at": None}],
        aggregate_hosts=[{"aggregate_id": 7, "host": "c1"}],
        aggregate_metadata=[{"owner": 7, "key": "availability_zone", "value": "az1"}],
        flavors=[{"id": 3, **_data(flavor_object())}],
        flavor_extra_specs=[{"owner": 3, "key": "x", "value": "y"}],
        flavor_projects=[{"flavor_id": 3, "project_id": "p1"}],
        instance_groups=[
            {"id": 1, "uuid": "g", "name": "apart", "project_id": "p1", "user_id": "u1"}
            | {"policy": "anti-affinity", "rules": '{"max_server_per_host": 3}'},
            {"id": 2, "uuid": "old", "name": "o", "project_id": "p1", "user_id": "u1"}
            | {"policy": "legacy", "rules": None},
        ],
        instance_group_member=[{"group_id": 1, "instance_uuid": _SERVER}],
        quotas=[{"project_id": "p1", "resource": "cores", "hard_limit": 40}],
        quota_classes=[{"class_name": "default", "resource": "ram", "hard_limit": 9}],
        project_user_quotas=[{"project_id": "p1", "user_id": "u1"}],
        key_pairs=[
            {"user_id": "u1", "name": "key", "fingerprint": "00", "public_key": "ssh-rsa A"}
            | {"type": "ssh", "created_at": _AT}
        ],
        request_specs=[{"id": 1, "instance_uuid": _SERVER, "spec": _spec("az1")}],
    )
    found = await read_api_database(tables)
    (flavor,), (aggregate,), (group,) = found.flavors, found.aggregates, found.server_groups
    assert (flavor.flavor_id, flavor.extra_specs) == ("f1", {"x": "y"})
    assert found.flavor_accesses == [FlavorAccess("f1", ("p1",))]
    assert (aggregate.aggregate_id, set(aggregate.hosts)) == (7, {"c1"})
    assert aggregate.availability_zones == {"az1"}
    assert (group.policy, group.max_server_per_host) == (GroupPolicy.ANTI_AFFINITY, 3)
    assert found.members == {"g": (_SERVER,)}
    assert found.quotas == [Quota(CLASS_DEFAULT, memory_mb=9), Quota("p1", vcpus=40)]
    (ring,) = found.key_rings
    assert (ring.user_id, ring.key_pairs[0].created_at_s) == ("u1", 1767323045.0)
    assert found.requests[_SERVER].zone == "az1"
    reasons = [(one.kind, one.key) for one in found.findings]
    assert (ImportKind.SERVER_GROUP, "old") in reasons
    assert (ImportKind.QUOTA, "p1/u1") in reasons


def _data(found: Mapping[str, object]) -> dict[str, Any]:
    data: Any = found["nova_object.data"]
    return {name: value for name, value in data.items() if name != "extra_specs"}


def _spec(zone: str | None) -> str:
    hints = {"group": ["g"], "query": "[]", "_nova_check_type": ["rebuild"]}
    data = {"availability_zone": zone, "scheduler_hints": hints, "flavor": flavor_object()}
    return json.dumps({"nova_object.name": "RequestSpec", "nova_object.data": data})


def test_hints_that_nova_adds_are_left_out() -> None:
    """Only those of the client are hints of the server."""
    assert request_facts(_spec(None)).hints == {"group": ("g",), "query": ("[]",)}


async def test_a_cell_is_read() -> None:
    """A server has the flavor and the image properties that it was booted with, and its lock."""
    extra = {"flavor": json.dumps({"cur": flavor_object(), "old": None, "new": None})}
    tables = Canned(
        services=[{"uuid": "s", "host": "c1", "disabled": True, "disabled_reason": "disk"}],
        compute_nodes=[
            {"uuid": "h", "host": "c1", "hypervisor_hostname": "c1.example"}
            | {"hypervisor_type": "QEMU", "hypervisor_version": 8, "host_ip": "192.0.2.1"}
            | {"cpu_info": '{"arch": "x86_64"}', "supported_instances": '[["a", "kvm", "hvm"]]'}
        ],
        instances=[
            instance_row(image_ref="i", locked=True, locked_by="owner", config_drive="True"),
            instance_row(uuid="hidden", hidden=True),
            instance_row(uuid="without flavor"),
        ],
        instance_extra=[{"owner": _SERVER, "trusted_certs": None, **extra}],
        instance_metadata=[{"owner": _SERVER, "key": "role", "value": "web"}],
        instance_system_metadata=[
            {"owner": _SERVER, "key": "image_hw_disk_bus", "value": "virtio"},
            {"owner": _SERVER, "key": "image_min_disk", "value": "1"},
            {"owner": _SERVER, "key": "locked_reason", "value": "in use"},
        ],
        tags=[{"owner": _SERVER, "tag": "red"}, {"owner": _SERVER, "tag": "blue"}],
        instance_info_caches=[{"owner": _SERVER, "network_info": '[{"id": "port"}]'}],
        block_device_mapping=[{"owner": _SERVER, "number": 2}],
    )
    found = await read_cell_database(tables, {_SERVER: request_facts(_spec("az1"))})
    (host,), (service,), (server,) = found.hosts, found.services, found.servers
    assert (host.node, host.cpu_info) == ("c1.example", {"arch": "x86_64"})
    assert host.supported_instances == (("a", "kvm", "hvm"),)
    assert is_observed(host)
    assert is_observed(server)
    assert (service.disabled_reason, service.forced_down) == ("disk", True)
    assert (server.status, server.requested_zone) == (Status.ACTIVE, "az1")
    assert (server.flavor.flavor_id, server.flavor.extra_specs) == ("f1", {"a": "b"})
    assert server.image == Image("i", properties={"hw_disk_bus": "virtio"})
    assert server.extra["locked"] == "in use"
    assert server.extra["locked_by"] == "owner"
    assert server.extra["tags"] == ["blue", "red"]
    reasons = {one.key: one.reason for one in found.findings}
    assert "no flavor" in reasons["without flavor"]
    assert "hidden" not in reasons
    assert {"has volumes of Cinder, which Berth does not know"} <= {
        one.reason for one in found.findings if one.key == _SERVER
    }


async def test_placement_is_read() -> None:
    """Numbers of rows become UUIDs and names; a consumer without a type has none."""
    tables = Canned(
        resource_classes=[{"id": 0, "name": "VCPU"}, {"id": 1, "name": "CUSTOM_GOLD"}],
        resource_providers=[
            {"id": 1, "uuid": "root", "name": "c1", "parent_provider_id": None},
            {"id": 2, "uuid": "child", "name": "c1_gpu", "parent_provider_id": 1},
        ],
        inventories=[
            {"resource_provider_id": 1, "resource_class_id": 0, "total": 8, "reserved": 1}
            | {"min_unit": 1, "max_unit": 8, "step_size": 1, "allocation_ratio": 2.0}
        ],
        resource_provider_traits=[{"owner": 1, "text": "CUSTOM_FAST"}],
        resource_provider_aggregates=[{"owner": 1, "text": "aggregate"}],
        allocations=[
            {"consumer_id": "c", "resource_provider_id": 1, "resource_class_id": 0, "used": 2},
            {"consumer_id": "c", "resource_provider_id": 2, "resource_class_id": 1, "used": 1},
        ],
        consumers=[{"uuid": "c", "project_id": "p1", "user_id": "u1", "type": None}],
        traits=[{"name": "HW_CPU_X86_AVX2"}, {"name": "CUSTOM_FAST"}],
    )
    found = await read_placement_database(tables)
    root, child = found.providers
    assert root.inventories == {"VCPU": Inventory(8, 1, max_unit=8, allocation_ratio=2.0)}
    assert (set(root.traits), root.aggregates) == ({"CUSTOM_FAST"}, ("aggregate",))
    assert child.parent_uuid == "root"
    (held,) = found.holdings
    assert held.allocations == {"root": {"VCPU": 2}, "child": {"CUSTOM_GOLD": 1}}
    assert (held.consumer.project_id, held.consumer.consumer_type) == ("p1", None)
    assert (found.resource_classes, found.traits) == (["CUSTOM_GOLD"], ["CUSTOM_FAST"])


def test_the_databases_of_one_server_have_novas_names() -> None:
    """Each URL can be given by itself; drivers and options of Nova's own URLs are replaced."""
    found = database_urls("mysql+pymysql://nova:pw@db/?charset=utf8")
    assert found.api == "mysql+aiomysql://nova:pw@db/nova_api"
    assert found.placement == "mysql+aiomysql://nova:pw@db/placement"
    assert [url.rpartition("/")[2] for url in found.cells] == ["nova_cell0", "nova"]
    cells = ("postgresql://db/one", "postgresql://db/two")
    assert database_urls("postgresql://db/x", cells=cells).cells == cells


@pytest.mark.parametrize("url", ["sqlite:///nova.db", "oracle://db/nova", "not a url"])
def test_other_databases_are_refused(url: str) -> None:
    """The error names what is supported, and never the URL, which has a password."""
    with pytest.raises(InvalidInputError, match="--from-db"):
        checked_url(url)


def test_addresses_and_times_have_one_form() -> None:
    """PostgreSQL adds prefixes to addresses and fractions to times, MariaDB does not."""
    assert address_of("192.0.2.1/32") == "192.0.2.1"
    assert address_of(None) == ""
    assert seconds(_AT) == 1767323045.0
    assert seconds(None) is None
