"""A small Nova, Placement and Keystone in memory, which answer like the real ones."""

import json
from collections.abc import Callable
from typing import Any, Final

import httpx

from berth.adapters.nova.api_reader import NovaApiReader
from berth.adapters.nova.credentials import Credentials
from berth.adapters.nova.session import OpenStackSession

HOST: Final = "00000000-0000-4000-8000-000000000001"
GPU: Final = "00000000-0000-4000-8000-000000000002"
SERVER: Final = "10000000-0000-4000-8000-000000000001"
MOVE: Final = "20000000-0000-4000-8000-000000000001"
GROUP: Final = "30000000-0000-4000-8000-000000000001"
AGGREGATE: Final = "40000000-0000-4000-8000-000000000001"
ENDPOINTS: Final = {
    "compute": "http://nova.example/v2.1",
    "placement": "http://placement.example",
}

Document = dict[str, Any]


def server(**changes: Any) -> Document:  # noqa: ANN401 - values of JSON
    """Return a server as Nova 2.100 shows it, with changes."""
    return {
        "id": SERVER,
        "name": "web",
        "tenant_id": "p1",
        "user_id": "u1",
        "flavor": {
            "original_name": "small",
            "vcpus": 2,
            "ram": 2048,
            "disk": 20,
            "ephemeral": 0,
            "swap": 0,
            "extra_specs": {"hw:cpu_policy": "shared"},
        },
        "image": {"id": "image-1", "properties": {"hw_disk_bus": "virtio"}},
        "created": "2026-01-02T03:04:05Z",
        "updated": "2026-01-02T03:05:05Z",
        "OS-EXT-STS:vm_state": "active",
        "OS-EXT-STS:task_state": None,
        "OS-EXT-SRV-ATTR:host": "c1",
        "OS-EXT-SRV-ATTR:hypervisor_hostname": "c1.example",
        "OS-EXT-SRV-ATTR:reservation_id": "r-abcdefgh",
        "OS-EXT-SRV-ATTR:launch_index": 1,
        "OS-SRV-USG:launched_at": "2026-01-02T03:04:35.000000",
        "os-extended-volumes:volumes_attached": [],
        "metadata": {"role": "web"},
        "tags": ["blue"],
        "key_name": "key",
        "config_drive": "True",
        "locked": True,
        "locked_reason": "in use",
        "addresses": {},
        "pinned_availability_zone": "az1",
        "scheduler_hints": {"same_host": [SERVER], "query": "[]"},
    } | changes


def compute_documents() -> dict[str, Document]:
    """Return the documents of the compute API by path, each list with one page."""
    limits = {"instances": 10, "cores": 20, "ram": 51200, "floating_ips": -1}
    return {
        "/": {"version": {"version": "2.100"}},
        "/os-hypervisors/detail": {
            "hypervisors": [
                {
                    "id": HOST,
                    "hypervisor_hostname": "c1.example",
                    "service": {"host": "c1"},
                    "hypervisor_type": "QEMU",
                    "hypervisor_version": 8_002_002,
                    "host_ip": "192.0.2.1",
                    "cpu_info": '{"arch": "x86_64"}',
                }
            ]
        },
        "/os-services": {
            "services": [
                {
                    "id": "s-1",
                    "host": "c1",
                    "binary": "nova-compute",
                    "status": "disabled",
                    "disabled_reason": "new disk",
                }
            ]
        },
        "/os-aggregates": {
            "aggregates": [
                {
                    "id": 7,
                    "uuid": AGGREGATE,
                    "name": "fast",
                    "hosts": ["c1"],
                    "metadata": {"availability_zone": "az1"},
                    "created_at": "2026-01-01T00:00:00.000000",
                    "updated_at": None,
                }
            ]
        },
        "/flavors/detail": {
            "flavors": [
                {
                    "id": "f1",
                    "name": "small",
                    "vcpus": 2,
                    "ram": 2048,
                    "disk": 20,
                    "OS-FLV-EXT-DATA:ephemeral": 0,
                    "swap": "",
                    "os-flavor-access:is_public": False,
                    "extra_specs": {"hw:cpu_policy": "shared"},
                }
            ]
        },
        "/flavors/f1/os-flavor-access": {"flavor_access": [{"tenant_id": "p1"}]},
        "/os-server-groups": {
            "server_groups": [
                {
                    "id": GROUP,
                    "name": "apart",
                    "policy": "anti-affinity",
                    "rules": {"max_server_per_host": 2},
                    "members": [SERVER],
                    "project_id": "p1",
                    "user_id": "u1",
                }
            ]
        },
        "/servers/detail": {"servers": [server()]},
        "/os-quota-class-sets/default": {"quota_class_set": limits},
        "/os-quota-sets/p1": {"quota_set": limits | {"cores": 40}},
        "/os-keypairs": {
            "keypairs": [
                {"keypair": {"name": "key", "public_key": "ssh-rsa AAAA", "fingerprint": "00"}}
            ]
        },
    }


def placement_documents() -> dict[str, Document]:
    """Return the documents of the Placement API by path: a host with a GPU."""
    none: Document = {"inventories": {}, "traits": [], "aggregates": []}

    def inventory(total: int, ratio: float = 1.0) -> Document:
        units = {"min_unit": 1, "max_unit": total, "step_size": 1}
        return units | {"total": total, "reserved": 0, "allocation_ratio": ratio}

    held = {"VCPU": 2, "MEMORY_MB": 2048}
    server_held = {HOST: {"resources": held}, GPU: {"resources": {"VGPU": 1}}}
    owner = {"project_id": "p1", "user_id": "u1"}
    return {
        "/resource_providers": {
            "resource_providers": [
                {"uuid": HOST, "name": "c1.example", "parent_provider_uuid": None},
                {"uuid": GPU, "name": "c1.example_gpu", "parent_provider_uuid": HOST},
            ]
        },
        f"/resource_providers/{HOST}/inventories": {
            "inventories": {"VCPU": inventory(8, 2.0), "MEMORY_MB": inventory(16384)}
        },
        f"/resource_providers/{HOST}/traits": {"traits": ["HW_CPU_X86_AVX2", "CUSTOM_FAST"]},
        f"/resource_providers/{HOST}/aggregates": none | {"aggregates": [AGGREGATE]},
        f"/resource_providers/{HOST}/allocations": {
            "allocations": {
                SERVER: {"resources": held},
                MOVE: {"resources": {"VCPU": 1}},
            }
        },
        f"/resource_providers/{GPU}/inventories": {"inventories": {"VGPU": inventory(4)}},
        f"/resource_providers/{GPU}/traits": none,
        f"/resource_providers/{GPU}/aggregates": none,
        f"/resource_providers/{GPU}/allocations": {
            "allocations": {SERVER: {"resources": {"VGPU": 1}}}
        },
        f"/allocations/{SERVER}": owner | {"allocations": server_held, "consumer_type": "INSTANCE"},
        f"/allocations/{MOVE}": owner
        | {"allocations": {HOST: {"resources": {"VCPU": 1}}}, "consumer_type": "MIGRATION"},
        "/resource_classes": {"resource_classes": [{"name": "VCPU"}, {"name": "CUSTOM_GOLD"}]},
        "/traits": {"traits": ["HW_CPU_X86_AVX2", "CUSTOM_FAST"]},
    }


class OpenStack:
    """Answers GET requests from documents, and records all requests.

    Attributes:
        compute: the documents of the compute API by path.
        placement: those of the Placement API.
        requests: the requests so far.
        tokens: the tokens that are accepted; None accepts any.
    """

    def __init__(self) -> None:
        self.compute = compute_documents()
        self.placement = placement_documents()
        self.requests: list[httpx.Request] = []
        self.tokens: set[str] | None = None
        self.failures: list[int] = []
        self._issued = 0

    def answer(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        self.requests.append(request)
        if request.url.host == "keystone.example":
            return self._token()
        if self.failures:
            return httpx.Response(self.failures.pop(0))
        if self.tokens is not None and request.headers.get("X-Auth-Token") not in self.tokens:
            return httpx.Response(401)
        is_compute = request.url.host == "nova.example"
        documents = self.compute if is_compute else self.placement
        path = request.url.path.removeprefix("/v2.1") if is_compute else request.url.path
        found = documents.get(path)
        if found is None:
            return httpx.Response(404, json={"path": path})
        # Every list has one page, as the marker and the offset show.
        if "marker" in request.url.params or int(request.url.params.get("offset", "0")):
            found = {name: [] for name in found}
        return httpx.Response(200, json=found)

    def _token(self) -> httpx.Response:
        self._issued += 1
        token = f"token-{self._issued}"
        self.tokens = {token}
        catalog = [
            {
                "type": name,
                "endpoints": [
                    {"interface": "public", "region": "one", "url": url},
                    {"interface": "internal", "region": "one", "url": f"{url}/internal"},
                ],
            }
            for name, url in ENDPOINTS.items()
        ]
        body = json.dumps({"token": {"catalog": catalog}})
        return httpx.Response(201, content=body, headers={"X-Subject-Token": token})

    def session(self, credentials: Credentials | None = None) -> OpenStackSession:
        """Return a session with this cloud, without Keystone unless credentials are given."""
        own = credentials or Credentials(
            "none",
            username="admin",
            compute_url=ENDPOINTS["compute"],
            placement_url=ENDPOINTS["placement"],
        )
        handler: Callable[[httpx.Request], httpx.Response] = self.answer
        return OpenStackSession(own, transport=httpx.MockTransport(handler), pause_s=0.0)

    def reader(self) -> NovaApiReader:
        """Return a reader of this cloud."""
        return NovaApiReader(self.session())
