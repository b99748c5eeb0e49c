"""A deployment that has something of everything."""

from dataclasses import dataclass, replace
from typing import Any

from berth.adapters.virt.fake import FakeDriver, FakeHost
from berth.agent.vnc_channels import HostConsoles
from berth.domain.compute.flavor import Image
from berth.domain.compute.instance import Fault, Instance, Status, Task
from berth.domain.compute.migration import MoveKind, Stage
from berth.domain.ledger.write import Committed, Put
from berth.services.gateway.host_queries import serve_queries
from berth.testing.builders import make_action, make_migration
from tests.unit.api.cloud import Stack

IMAGE = "70a599e0-31e7-49b7-b260-868f441e862b"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJJSzOmi6xAM4Hjj0uS9AKo6V2WxyIHpyOhL4GJ0EpH1 a@b"
OWNER = "alice:web"
PROJECT = "web"
ADDRESSES = {"accessIPv4": "192.0.2.7", "accessIPv6": "2001:db8::7"}

Body = dict[str, Any]


@dataclass
class World:
    """A deployment, and the values of the parameters of paths in it."""

    stack: Stack
    values: dict[str, str]

    async def number(self, path: str, body: Body, key: str, version: str = "2.96") -> str:
        """Create something and return its id."""
        answer = await self.stack.ask("POST", path, body, version=version)
        assert answer.status < 300, answer.body
        return str(answer.body[key]["id"])

    async def change(self, uuid: str, **fields: object) -> None:
        """Change fields of an instance in the ledger."""
        instance = await self.stack.ledger.get(Instance, uuid)
        assert instance is not None
        changed: Any = fields
        (outcome,) = await self.stack.ledger.commit([(Put(replace(instance, **changed)),)])
        assert isinstance(outcome, Committed)


async def make_world() -> World:
    """Return a deployment with servers in several states, moves, groups, aggregates and quotas."""
    image = Image(IMAGE, name="debian", properties={"os_distro": "debian", "hw_disk_bus": "virtio"})
    stack = Stack(images={IMAGE: image})
    await stack.start()
    await stack.flavor()
    await stack.flavor("private", **{"os-flavor-access:is_public": False})
    access = {"addTenantAccess": {"tenant": PROJECT}}
    await stack.ask("POST", "/v2.1/flavors/private/action", access)
    world = World(stack, {})
    specs = {"extra_specs": {"hw:cpu_policy": "shared"}}
    await stack.ask("POST", "/v2.1/flavors/small/os-extra_specs", specs)
    policy = {"server_group": {"name": "g", "policy": "affinity"}}
    answer = await stack.ask("POST", "/v2.1/os-server-groups", policy, version="2.64", token=OWNER)
    group = str(answer.body["server_group"]["id"])
    zone = {"aggregate": {"name": "a", "availability_zone": "z"}}
    aggregate = await world.number("/v2.1/os-aggregates", zone, "aggregate")
    path = f"/v2.1/os-aggregates/{aggregate}/action"
    await stack.ask("POST", path, {"add_host": {"host": "host-0"}})
    for token in (None, OWNER):
        key = {"keypair": {"name": "mine", "public_key": KEY}}
        await stack.ask("POST", "/v2.1/os-keypairs", key, token=token)
    uuid = await _servers(world, group)
    services = await stack.ask("GET", "/v2.1/os-services", version="2.53")
    service = next(one["id"] for one in services.body["services"] if one["host"] == "host-2")
    change = {"status": "disabled", "disabled_reason": "repair"}
    await stack.ask("PUT", f"/v2.1/os-services/{service}", change, version="2.53")
    world.values |= {
        "server_id": uuid,
        "flavor_id": "small",
        "aggregate_id": aggregate,
        "group_id": group,
        "service_id": service,
        "project_id": PROJECT,
        "class_id": "default",
        "image_id": IMAGE,
        "hypervisor_id": "11111111-0000-4000-8000-000000000000",
        "alias": "os-keypairs",
        "network": "private",
        "keypair_name": "mine",
        "host_name": "host-1",
        "before": "2026-01-31 12:00:00",
    }
    await _answer_queries(world)
    return world


async def _answer_queries(world: World) -> None:
    """Answer the queries about the host of the first server, which runs there."""
    stack = world.stack
    instance = await stack.ledger.get(Instance, world.values["server_id"])
    assert instance is not None
    for number in range(3):
        driver = FakeDriver(FakeHost(f"host-{number}"), stack.clock)
        await driver.spawn(instance)
        consoles = HostConsoles(f"host-{number}", driver, stack.clock)
        serve_queries(stack.bus, f"host-{number}", consoles)


async def _servers(world: World, group: str) -> str:
    stack = world.stack
    values = {
        **ADDRESSES,
        "OS-DCF:diskConfig": "AUTO",
        "imageRef": IMAGE,
        "metadata": {"key": "value"},
        "user_data": "YQ==",
        "tags": ["blue", "green"],
        "security_groups": [{"name": "web"}],
        "trusted_image_certificates": ["c1"],
        "description": "text",
        "config_drive": True,
        "key_name": "mine",
    }
    body = {"name": "vm", "flavorRef": "small", "networks": "none", **values}
    answer = await stack.ask(
        "POST",
        "/v2.1/servers",
        {"server": body, "os:scheduler_hints": {"group": group}},
        version="2.96",
        token=OWNER,
    )
    assert answer.status == 202, answer.body
    uuid = str(answer.body["server"]["id"])
    await stack.activate(uuid)
    locked = {"lock": {"locked_reason": "repair"}}
    await stack.ask("POST", f"/v2.1/servers/{uuid}/action", locked, version="2.73")
    live = replace(make_migration(), instance_uuid=uuid, kind=MoveKind.LIVE, stage=Stage.MOVING)
    action = replace(make_action(), instance_uuid=uuid, project_id=PROJECT, request_id="req-1")
    other = replace(make_migration(2), stage=Stage.ARRIVED)
    (outcome,) = await stack.ledger.commit([(Put(live), Put(other), Put(action))])
    assert isinstance(outcome, Committed)
    await world.change(uuid, migration_uuid=live.uuid)
    await stack.server(token=OWNER, name="building")
    big = await stack.server(token=OWNER, name="broken", availability_zone="z")
    fault = Fault(500, "No valid host", stack.clock.now_s(), "details")
    await world.change(big, status=Status.ERROR, task=None, host=None, node=None, fault=fault)
    off = await stack.server(token=OWNER, name="off")
    await world.change(off, status=Status.SHUTOFF, task=Task.REBUILDING)
    world.values |= {"migration_id": "1", "request_id": "req-1", "key": "key", "tag": "blue"}
    return uuid
