"""The requests that change something, one or more for each such operation of the compute API."""

from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any, NamedTuple

from berth.domain.compute.instance import Status
from tests.differential.responses.world import IMAGE, KEY, OWNER, World

Body = dict[str, Any]
Bodies = Callable[[int], Body]
_numbers = count(1)

NETWORKS = 37
TYPES_OF_KEYS = 2
UUIDS_OF_SERVICES = 53
POLICY = 64


class Sent(NamedTuple):
    """A request of an operation.

    `body` returns the body for a minor version. `action` is the name of a server action.
    `prepares` runs before each request and returns values of parameters of the path.
    """

    method: str
    path: str
    body: Bodies | None = None
    action: str | None = None
    prepares: Callable[[World], Awaitable[Mapping[str, str]]] | None = None
    token: str | None = None


def always(body: Body) -> Bodies:
    """Return a function that returns the same body for each version."""
    return lambda _: body


async def idle(world: World) -> Mapping[str, str]:
    """Return the server to a state in which it can be changed."""
    uuid = world.values["server_id"]
    await world.stack.ask("POST", f"/v2.1/servers/{uuid}/action", {"unlock": None})
    fields: dict[str, Any] = {"status": Status.ACTIVE, "task": None, "migration_uuid": None}
    await world.change(uuid, host="host-1", node="node-1", action=None, **fields)
    return {}


async def away(world: World) -> Mapping[str, str]:
    """Have the host of the server fail."""
    await idle(world)
    answer = await world.stack.ask("GET", "/v2.1/os-services?host=host-1", version="2.53")
    path = f"/v2.1/os-services/{answer.body['services'][0]['id']}"
    await world.stack.ask("PUT", path, {"forced_down": True}, version="2.53")
    return {}


async def resized(world: World) -> Mapping[str, str]:
    """Return the server to a state in which it can be changed, with another flavor to choose."""
    if "large" not in world.values.values():
        await world.stack.flavor("large", vcpus=4)
        world.values["large"] = "large"
    return await idle(world)


async def new_server(world: World) -> Mapping[str, str]:
    """Create a server without a host, which can be deleted at once."""
    uuid = await world.stack.server(token=OWNER)
    await world.change(uuid, status=Status.ERROR, task=None, host=None, node=None)
    return {"server_id": uuid}


async def new_flavor(world: World) -> Mapping[str, str]:
    """Create a flavor."""
    made = await world.stack.flavor(f"flavor-{next(_numbers)}")
    path = f"/v2.1/flavors/{made['id']}/os-extra_specs"
    await world.stack.ask("POST", path, {"extra_specs": {"key": "value"}})
    return {"flavor_id": str(made["id"]), "key": "key"}


async def new_aggregate(world: World) -> Mapping[str, str]:
    """Create an aggregate."""
    body = {"aggregate": {"name": f"aggregate-{next(_numbers)}"}}
    return {"aggregate_id": await world.number("/v2.1/os-aggregates", body, "aggregate")}


async def new_group(world: World) -> Mapping[str, str]:
    """Create a server group."""
    body = {"server_group": {"name": "g", "policy": "affinity"}}
    return {"group_id": await world.number("/v2.1/os-server-groups", body, "server_group")}


async def tagged(world: World) -> Mapping[str, str]:
    """Create a server with a tag and an item of metadata, which can be deleted."""
    uuid = await world.stack.server(token=OWNER, metadata={"key": "value"}, tags=["blue"])
    return {"server_id": uuid}


async def with_access(world: World) -> Mapping[str, str]:
    """Return the private flavor after giving a project access to it."""
    body = {"addTenantAccess": {"tenant": "shop"}}
    await world.stack.ask("POST", "/v2.1/flavors/private/action", body)
    return {"flavor_id": "private"}


async def without_access(world: World) -> Mapping[str, str]:
    """Return the private flavor after withdrawing a project's access to it."""
    body = {"removeTenantAccess": {"tenant": "shop"}}
    await world.stack.ask("POST", "/v2.1/flavors/private/action", body)
    return {"flavor_id": "private"}


async def host_without_servers(world: World) -> Mapping[str, str]:
    """Return the service of a host that can be deleted."""
    answer = await world.stack.ask("GET", "/v2.1/os-services", version="2.53")
    left = [one["id"] for one in answer.body["services"] if one["host"].startswith("spare")]
    return {"service_id": left[0]}


def _server(minor: int, **more: object) -> Body:
    body: Body = {"name": "vm", "flavorRef": "small", "imageRef": IMAGE, **more}
    if minor >= NETWORKS:
        body["networks"] = "none"
    return {"server": body}


def _service(minor: int) -> Body:
    if minor >= UUIDS_OF_SERVICES:
        return {"status": "enabled"}
    return {"host": "host-2", "binary": "nova-compute"}


async def _verb_of_service(world: World) -> Mapping[str, str]:
    # Before 2.53 the last part of the path says what to do.
    return {"old_service_id": "enable"}


def _group(minor: int) -> Body:
    rule = {"policy": "affinity"} if minor >= POLICY else {"policies": ["affinity"]}
    return {"server_group": {"name": "g", **rule}}


_SERVER = "/v2.1/servers/{server_id}"
_FLAVOR = "/v2.1/flavors/{flavor_id}"
_AGGREGATE = "/v2.1/os-aggregates/{aggregate_id}"
_QUOTA = "/v2.1/os-quota-sets/{project_id}"


def _action(name: str, args: object = None) -> Sent:
    path = f"{_SERVER}/action"
    return Sent("POST", path, always({name: args}), name, idle)


async def new_key(world: World) -> Mapping[str, str]:
    """Create a key pair."""
    name = f"key-{next(_numbers)}"
    body = {"keypair": {"name": name, "public_key": KEY}}
    answer = await world.stack.ask("POST", "/v2.1/os-keypairs", body)
    assert answer.status == 200, answer.body
    return {"keypair_name": name}


def _key_pair(minor: int) -> Body:
    body = {"name": f"key-{next(_numbers)}", "public_key": KEY}
    return {"keypair": body | ({"type": "ssh"} if minor >= TYPES_OF_KEYS else {})}


CHANGES = (
    Sent("POST", "/v2.1/os-keypairs", _key_pair),
    Sent("DELETE", "/v2.1/os-keypairs/{keypair_name}", prepares=new_key),
    Sent("POST", "/v2.1/servers", _server),
    Sent("POST", "/v2.1/servers", lambda minor: _server(minor, return_reservation_id=True)),
    Sent("PUT", _SERVER, always({"server": {"name": "vm", "accessIPv4": "192.0.2.9"}})),
    Sent("PUT", _SERVER, always({"server": {"name": "vm"}}), None, idle, OWNER),
    Sent("DELETE", _SERVER, prepares=new_server),
    Sent("POST", f"{_SERVER}/metadata", always({"metadata": {"a": "b"}})),
    Sent("PUT", f"{_SERVER}/metadata", always({"metadata": {"key": "value"}})),
    Sent("PUT", f"{_SERVER}/metadata/{{key}}", always({"meta": {"key": "other"}})),
    Sent("DELETE", f"{_SERVER}/metadata/{{key}}", prepares=tagged),
    Sent(
        "POST",
        f"{_SERVER}/remote-consoles",
        always({"remote_console": {"protocol": "vnc", "type": "novnc"}}),
        prepares=idle,
    ),
    Sent("PUT", f"{_SERVER}/tags", always({"tags": ["blue"]})),
    Sent("DELETE", f"{_SERVER}/tags", prepares=tagged),
    Sent("PUT", f"{_SERVER}/tags/{{tag}}", prepares=new_server),
    Sent("PUT", f"{_SERVER}/tags/{{tag}}", prepares=tagged),
    Sent("DELETE", f"{_SERVER}/tags/{{tag}}", prepares=tagged),
    _action("rebuild", {"imageRef": IMAGE, "metadata": {"key": "value"}}),
    _action("rebuild", {"imageRef": IMAGE})._replace(token=OWNER),
    _action("resize", {"flavorRef": "large"})._replace(prepares=resized),
    _action("os-stop"),
    _action("rescue"),
    _action("reboot", {"type": "SOFT"}),
    _action("pause"),
    _action("suspend"),
    _action("shelve"),
    _action("lock"),
    _action("unlock"),
    _action("os-resetState", {"state": "active"}),
    _action("migrate"),
    _action("forceDelete")._replace(prepares=new_server),
    Sent(
        "POST",
        f"{_SERVER}/action",
        lambda minor: {"evacuate": {"onSharedStorage": False} if minor < 14 else {}},
        "evacuate",
        away,
    ),
    Sent(
        "POST",
        "/v2.1/flavors",
        lambda minor: {
            "flavor": {"name": f"new-{next(_numbers)}", "ram": 1, "vcpus": 1, "disk": 0}
            | ({"description": "text"} if minor >= 55 else {})
        },
    ),
    Sent("PUT", _FLAVOR, always({"flavor": {"description": "text"}})),
    Sent("DELETE", _FLAVOR, prepares=new_flavor),
    *(
        Sent("POST", f"{_FLAVOR}/action", always({name: {"tenant": "shop"}}), name, has_access)
        for name, has_access in (
            ("addTenantAccess", without_access),
            ("removeTenantAccess", with_access),
        )
    ),
    Sent("PUT", "/v2.1/os-hosts/{host_name}", always({"status": "enable"})),
    Sent("DELETE", f"{_SERVER}/os-server-password"),
    Sent("POST", f"{_FLAVOR}/os-extra_specs", always({"extra_specs": {"key": "value"}})),
    Sent("PUT", f"{_FLAVOR}/os-extra_specs/{{key}}", always({"key": "v"}), None, new_flavor),
    Sent("DELETE", f"{_FLAVOR}/os-extra_specs/{{key}}", prepares=new_flavor),
    Sent("PUT", "/v2.1/os-services/{service_id}", _service, None, _verb_of_service),
    Sent(
        "POST",
        "/v2.1/os-aggregates",
        lambda _: {"aggregate": {"name": f"aggregate-{next(_numbers)}"}},
    ),
    Sent("PUT", _AGGREGATE, always({"aggregate": {"name": "a"}})),
    Sent("DELETE", _AGGREGATE, prepares=new_aggregate),
    Sent(
        "POST",
        f"{_AGGREGATE}/action",
        always({"set_metadata": {"metadata": {"key": "value"}}}),
        "set_metadata",
    ),
    Sent(
        "POST",
        f"{_AGGREGATE}/action",
        always({"add_host": {"host": "host-1"}}),
        "add_host",
        new_aggregate,
    ),
    Sent("POST", "/v2.1/os-server-groups", _group),
    Sent("DELETE", "/v2.1/os-server-groups/{group_id}", prepares=new_group),
    Sent("PUT", _QUOTA, always({"quota_set": {"cores": 100}})),
    Sent("DELETE", _QUOTA),
    Sent(
        "PUT",
        "/v2.1/os-quota-class-sets/{class_id}",
        always({"quota_class_set": {"cores": 100}}),
    ),
)
