"""Servers in the compute API: creating, showing, renaming and deleting them."""

import hashlib
from dataclasses import replace

import pytest

from berth.api.app import build_app
from berth.domain.compute.decision import Decision, Verdict
from berth.domain.compute.host import Service
from berth.domain.compute.instance import Fault, Instance, Status
from berth.domain.errors import UnavailableError
from berth.domain.ledger.write import Put
from berth.services.servers.instances import AcceptedCreate, CreateOrder, Instances
from tests.unit.api.cloud import Answer, Json, Stack

NEWEST = "2.104"


async def shown(stack: Stack, uuid: str, version: str = NEWEST, token: str | None = None) -> Json:
    """Return a server as the API shows it."""
    answer = await stack.ask("GET", f"/v2.1/servers/{uuid}", version=version, token=token)
    assert answer.status == 200, answer.body
    server: Json = answer.body["server"]
    return server


async def test_a_server_is_made_and_placed(stack: Stack) -> None:
    """The answer has the id and the location of the server, which then shows its host."""
    body = {"server": {"name": "vm", "flavorRef": "small", "networks": "none"}}
    answer = await stack.ask("POST", "/v2.1/servers", body, version=NEWEST)
    assert answer.status == 202
    made = answer.body["server"]
    assert made["OS-DCF:diskConfig"] == "MANUAL"
    assert made["security_groups"] == [{"name": "default"}]
    assert answer.headers["Location"] == made["links"][0]["href"]
    server = await shown(stack, made["id"])
    assert server["OS-EXT-SRV-ATTR:host"].startswith("host-")
    assert server["status"] == "BUILD"
    assert server["OS-EXT-STS:task_state"] == "spawning"


async def test_a_server_is_shown_in_full(stack: Stack) -> None:
    """The newest microversion shows every field."""
    uuid = await stack.server(
        metadata={"a": "b"},
        description="mine",
        tags=["x", "y"],
        hostname="vm-1",
        config_drive="True",
        security_groups=[{"name": "web"}],
        user_data="aGk=",
        availability_zone="nova",
    )
    await stack.activate(uuid)
    server = await shown(stack, uuid)
    host = server["OS-EXT-SRV-ATTR:host"]
    created = await stack.ledger.get(Instance, uuid)
    assert created is not None
    assert server == {
        "id": uuid,
        "name": "vm",
        "status": "ACTIVE",
        "tenant_id": "admin",
        "user_id": "admin",
        "created": "2027-01-15T08:00:00Z",
        "updated": "2027-01-15T08:00:00Z",
        "hostId": hashlib.sha224(("admin" + host).encode()).hexdigest(),
        "flavor": {
            "original_name": "small",
            "vcpus": 2,
            "ram": 4096,
            "disk": 20,
            "ephemeral": 0,
            "swap": 0,
            "extra_specs": {},
        },
        "image": "",
        "metadata": {"a": "b"},
        "links": [
            {"rel": "self", "href": f"http://berth.test/v2.1/servers/{uuid}"},
            {"rel": "bookmark", "href": f"http://berth.test/servers/{uuid}"},
        ],
        "OS-EXT-STS:task_state": None,
        "OS-EXT-STS:vm_state": "active",
        "OS-EXT-STS:power_state": 1,
        "OS-EXT-AZ:availability_zone": "nova",
        "OS-SRV-USG:launched_at": "2027-01-15T08:00:00.000000",
        "OS-SRV-USG:terminated_at": None,
        "config_drive": "True",
        "key_name": None,
        "security_groups": [{"name": "web"}],
        "accessIPv4": "",
        "accessIPv6": "",
        "addresses": {},
        "OS-DCF:diskConfig": "MANUAL",
        "os-extended-volumes:volumes_attached": [],
        "progress": 0,
        "OS-EXT-SRV-ATTR:host": host,
        "OS-EXT-SRV-ATTR:hypervisor_hostname": host.replace("host", "node"),
        "OS-EXT-SRV-ATTR:instance_name": f"instance-{uuid[:8]}",
        "OS-EXT-SRV-ATTR:hostname": "vm-1",
        "OS-EXT-SRV-ATTR:reservation_id": created.reservation_id,
        "OS-EXT-SRV-ATTR:launch_index": 0,
        "OS-EXT-SRV-ATTR:user_data": "aGk=",
        "OS-EXT-SRV-ATTR:kernel_id": "",
        "OS-EXT-SRV-ATTR:ramdisk_id": "",
        "OS-EXT-SRV-ATTR:root_device_name": None,
        "host_status": "UP",
        "locked": False,
        "locked_reason": None,
        "description": "mine",
        "tags": ["x", "y"],
        "trusted_image_certificates": None,
        "server_groups": [],
        "pinned_availability_zone": "nova",
        "scheduler_hints": {},
    }


@pytest.mark.parametrize(
    ("since", "field"),
    [
        ("2.3", "OS-EXT-SRV-ATTR:reservation_id"),
        ("2.9", "locked"),
        ("2.16", "host_status"),
        ("2.19", "description"),
        ("2.26", "tags"),
        ("2.63", "trusted_image_certificates"),
        ("2.71", "server_groups"),
        ("2.73", "locked_reason"),
        ("2.96", "pinned_availability_zone"),
        ("2.100", "scheduler_hints"),
    ],
)
async def test_fields_come_with_their_version(stack: Stack, since: str, field: str) -> None:
    """Each field is shown from its microversion on, and not before."""
    uuid = await stack.server()
    major, minor = since.split(".")
    assert field in await shown(stack, uuid, since)
    assert field not in await shown(stack, uuid, f"{major}.{int(minor) - 1}")


async def test_before_2_47_the_flavor_is_a_link(stack: Stack) -> None:
    """From 2.47 on, the flavor is embedded."""
    uuid = await stack.server()
    link = {"rel": "bookmark", "href": "http://berth.test/flavors/small"}
    assert (await shown(stack, uuid, "2.46"))["flavor"] == {"id": "small", "links": [link]}
    assert (await shown(stack, uuid, "2.47"))["flavor"]["original_name"] == "small"


async def test_its_owner_does_not_see_the_host(stack: Stack) -> None:
    """The owner sees only hostId, which is equal for servers on one host."""
    uuid = await stack.server(token="bob:web")
    server = await shown(stack, uuid, token="bob:web")
    host_fields = {name for name in server if name.startswith("OS-EXT-SRV-ATTR:")}
    assert host_fields == {"OS-EXT-SRV-ATTR:hostname"}
    assert len(server["hostId"]) == 56
    assert server["tenant_id"] == "web"
    assert server["user_id"] == "bob"


async def test_no_valid_host_is_no_http_error(stack: Stack) -> None:
    """The request is accepted as in Nova, and the server is in ERROR with a fault."""
    await stack.flavor("huge", vcpus=64)
    uuid = await stack.server(flavorRef="huge")
    server = await shown(stack, uuid)
    assert server["status"] == "ERROR"
    assert server["OS-EXT-STS:vm_state"] == "error"
    assert server["fault"]["code"] == 500
    assert "No valid host was found" in server["fault"]["message"]
    assert server["fault"]["created"] == "2027-01-15T08:00:00Z"
    assert server["OS-EXT-SRV-ATTR:host"] is None
    assert server["hostId"] == ""
    assert server["OS-EXT-AZ:availability_zone"] == ""
    assert "progress" not in server


async def test_the_details_of_a_fault_are_for_administrators(stack: Stack) -> None:
    """The owner sees the message of a fault but not its details."""
    uuid = await stack.server(token="bob")
    instance = await stack.ledger.get(Instance, uuid)
    assert instance is not None
    fault = Fault(500, "it failed", 0.0, details="on host-7")
    await stack.ledger.commit([(Put(replace(instance, status=Status.ERROR, fault=fault)),)])
    assert "details" not in (await shown(stack, uuid, token="bob"))["fault"]
    assert (await shown(stack, uuid))["fault"]["details"] == "on host-7"


async def test_the_zone_is_that_of_the_host(stack: Stack) -> None:
    """The zone follows the aggregates for a server that asked for none."""
    uuid = await stack.server()
    instance = await stack.ledger.get(Instance, uuid)
    assert instance is not None
    assert (await add_to_zone(stack, instance.host, "east")).status == 200
    server = await shown(stack, uuid)
    assert server["OS-EXT-AZ:availability_zone"] == "east"
    assert server["pinned_availability_zone"] is None


async def test_a_host_keeps_the_zone_that_its_server_asked_for(stack: Stack) -> None:
    """The pinned zone is the requested one, and the host of the server cannot leave it."""
    uuid = await stack.server(availability_zone="nova:host-0")
    assert (await add_to_zone(stack, "host-0", "east")).status == 409
    server = await shown(stack, uuid)
    assert server["OS-EXT-AZ:availability_zone"] == "nova"
    assert server["pinned_availability_zone"] == "nova"


async def add_to_zone(stack: Stack, host: str | None, zone: str) -> Answer:
    """Add a host to a new aggregate of an availability zone, and return the answer."""
    body = {"aggregate": {"name": "a", "availability_zone": zone}}
    await stack.ask("POST", "/v2.1/os-aggregates", body)
    action = {"add_host": {"host": host}}
    answer = await stack.ask("POST", "/v2.1/os-aggregates/1/action", action)
    await stack.follower.catch_up()
    return answer


async def test_a_server_is_renamed(stack: Stack) -> None:
    """The answer has the new name, and the description can be removed."""
    uuid = await stack.server()
    body = {"server": {"name": "new", "description": None, "accessIPv4": ""}}
    answer = await stack.ask("PUT", f"/v2.1/servers/{uuid}", body, version="2.90")
    assert answer.status == 200
    assert answer.body["server"]["name"] == "new"
    server = await shown(stack, uuid)
    assert (server["name"], server["description"]) == ("new", None)


async def test_a_description_needs_its_version(stack: Stack) -> None:
    """A description before 2.19 is refused."""
    uuid = await stack.server()
    body = {"server": {"description": "x"}}
    answer = await stack.ask("PUT", f"/v2.1/servers/{uuid}", body, version="2.18")
    assert answer.status == 400
    assert "server.description" in answer.body["badRequest"]["message"]


async def test_a_deleted_server_is_gone(stack: Stack) -> None:
    """A server without a host is deleted immediately; one on a host has the task deleting."""
    await stack.flavor("huge", vcpus=64)
    homeless = await stack.server(flavorRef="huge")
    assert (await stack.ask("DELETE", f"/v2.1/servers/{homeless}")).status == 204
    assert (await stack.ask("GET", f"/v2.1/servers/{homeless}")).status == 404
    assert (await stack.ask("DELETE", f"/v2.1/servers/{homeless}")).status == 404
    placed = await stack.server()
    assert (await stack.ask("DELETE", f"/v2.1/servers/{placed}")).status == 204
    assert (await shown(stack, placed))["OS-EXT-STS:task_state"] == "deleting"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("PUT", "", {"server": {"name": "x"}}),
        ("DELETE", "", None),
        ("GET", "/metadata", None),
        ("PUT", "/metadata", {"metadata": {}}),
        ("POST", "/action", {"reboot": {"type": "SOFT"}}),
    ],
)
async def test_other_projects_servers_are_not_there(
    stack: Stack, method: str, path: str, body: Json | None
) -> None:
    """Another project's server gets 404, except for administrators."""
    uuid = await stack.server(token="bob:web")
    answer = await stack.ask(method, f"/v2.1/servers/{uuid}{path}", body, token="eve:dev")
    assert answer.status == 404
    assert answer.body["itemNotFound"]["message"] == f"Instance {uuid} could not be found."
    assert (await stack.ask("GET", f"/v2.1/servers/{uuid}")).status == 200


async def test_a_name_is_no_id(stack: Stack) -> None:
    """A name as the id gets 404, which clients expect before they search by name."""
    await stack.server(name="vm")
    assert (await stack.ask("GET", "/v2.1/servers/vm")).status == 404


async def test_a_reservation_id_stands_for_all(stack: Stack) -> None:
    """With return_reservation_id, the answer has only the reservation, which lists all servers."""
    server = {"name": "vm", "flavorRef": "small", "max_count": 3, "return_reservation_id": "True"}
    answer = await stack.ask("POST", "/v2.1/servers", {"server": server})
    (key,) = answer.body
    assert key == "reservation_id"
    path = f"/v2.1/servers?reservation_id={answer.body[key]}"
    names = [one["name"] for one in (await stack.ask("GET", path)).body["servers"]]
    assert sorted(names) == ["vm-1", "vm-2", "vm-3"]


async def test_a_repeat_with_the_same_key_makes_nothing_new(stack: Stack) -> None:
    """A repeated key returns the first server; keys of different projects are independent."""
    body = {"server": {"name": "vm", "flavorRef": "small"}}
    key = {"Idempotency-Key": "trace/1"}
    answers = [
        await stack.ask("POST", "/v2.1/servers", body, headers=key, token=token)
        for token in ("bob:web", "bob:web", "eve:dev")
    ]
    ids = [answer.body["server"]["id"] for answer in answers]
    assert ids[0] == ids[1] != ids[2]


async def test_a_key_is_for_one_request(stack: Stack) -> None:
    """Another body under the same key gets 409, and an invalid key 400."""
    key = {"Idempotency-Key": "trace/1"}
    body = {"server": {"name": "vm", "flavorRef": "small"}}
    assert (await stack.ask("POST", "/v2.1/servers", body, headers=key)).status == 202
    other = {"server": {"name": "vm", "flavorRef": "small", "min_count": 2}}
    assert (await stack.ask("POST", "/v2.1/servers", other, headers=key)).status == 409
    for bad in ("", "x" * 256):
        headers = {"Idempotency-Key": bad}
        assert (await stack.ask("POST", "/v2.1/servers", body, headers=headers)).status == 400


async def test_the_request_id_leads_to_the_decision(stack: Stack) -> None:
    """The request id in the header is the key of the decision."""
    body = {"server": {"name": "vm", "flavorRef": "small"}}
    answer = await stack.ask("POST", "/v2.1/servers", body)
    decision = await stack.ledger.get(Decision, answer.headers["x-openstack-request-id"])
    assert decision is not None
    assert decision.verdict is Verdict.PLACED


class Unreachable(Instances):
    """Instances whose ledger cannot be reached."""

    async def create(self, order: CreateOrder) -> AcceptedCreate:
        """Raise UnavailableError."""
        raise UnavailableError("the ledger cannot be reached; repeat with the same request id")


async def test_an_unsure_outcome_is_503(stack: Stack) -> None:
    """A create whose outcome is unknown gets 503 with Retry-After."""
    parts = stack.parts
    broken = Unreachable(
        ledger=stack.ledger,
        follower=stack.follower,
        replica=stack.replica,
        bus=stack.bus,
        clock=stack.clock,
    )
    stack.app = build_app(replace(parts, instances=broken))
    body = {"server": {"name": "vm", "flavorRef": "small"}}
    answer = await stack.ask("POST", "/v2.1/servers", body)
    assert answer.status == 503
    assert answer.headers["Retry-After"]


@pytest.mark.parametrize(
    ("flags", "silent_s", "status"),
    [
        ((False, False), 0.0, "UP"),
        ((False, False), 10_000.0, "UNKNOWN"),
        ((True, False), 10_000.0, "MAINTENANCE"),
        ((True, True), 0.0, "DOWN"),
    ],
)
async def test_host_status_is_that_of_the_compute_service(
    stack: Stack, flags: tuple[bool, bool], silent_s: float, status: str
) -> None:
    """Nova's four words, and an empty text for a server without a host."""
    uuid = await stack.server()
    host = (await shown(stack, uuid))["OS-EXT-SRV-ATTR:host"]
    service = await stack.ledger.get(Service, host)
    assert service is not None
    disabled, forced_down = flags
    changed = replace(service, disabled=disabled, forced_down=forced_down)
    await stack.ledger.commit([(Put(changed),)])
    await stack.follower.catch_up()
    await stack.clock.sleep(silent_s)
    assert (await shown(stack, uuid))["host_status"] == status
    instance = await stack.ledger.get(Instance, uuid)
    assert instance is not None
    await stack.ledger.commit([(Put(replace(instance, host=None, node=None)),)])
    assert (await shown(stack, uuid))["host_status"] == ""
