"""What the microversions 2.101 to 2.104 change."""

from dataclasses import replace

import pytest

from berth.domain.compute.instance import Status, Task
from tests.unit.api.cloud import Answer, Json, Stack

OLD, NEW = "2.101", "2.102"
PERIOD = "start=2027-01-01T00:00:00&end=2027-01-02T00:00:00"


async def put(stack: Stack, uuid: str, zone: str | None, version: str = "2.104") -> Answer:
    """Pin a server to a zone, or unpin it."""
    body = {"server": {"pinned_availability_zone": zone}}
    return await stack.ask("PUT", f"/v2.1/servers/{uuid}", body, version=version)


@pytest.mark.parametrize(
    "path",
    [
        "flavors/small",
        "flavors",
        "flavors/small/os-extra_specs",
        "limits",
        "os-availability-zone",
        "os-aggregates",
        "os-keypairs",
        "os-services",
        "servers/{uuid}",
        "servers/{uuid}/metadata",
        "servers/{uuid}/tags",
        "servers/{uuid}/ips",
        "os-quota-sets/web",
    ],
)
async def test_unknown_parameters_are_refused_everywhere(stack: Stack, path: str) -> None:
    """From 2.102 on, no operation ignores a parameter of the query that it does not know."""
    path = "/v2.1/" + path.format(uuid=await stack.server())
    assert (await stack.ask("GET", path, version=NEW)).status == 200
    assert (await stack.ask("GET", f"{path}?nonsense=1", version="2.26")).status == 200
    refused = await stack.ask("GET", f"{path}?nonsense=1", version=NEW)
    assert refused.status == 400
    assert refused.body["badRequest"]["message"].startswith("nonsense: ")


@pytest.mark.parametrize(
    "path",
    [
        "flavors",
        "flavors/detail",
        "limits",
        "os-keypairs",
        "os-quota-sets/web",
        "os-quota-sets/web/detail",
        "os-server-groups",
        "os-services",
        f"os-simple-tenant-usage?{PERIOD}",
        f"os-simple-tenant-usage/web?{PERIOD}",
        "servers",
        "servers/detail",
    ],
)
async def test_unknown_parameters_are_refused_earlier_by_some(stack: Stack, path: str) -> None:
    """These are the operations that Nova made strict in 2.75."""
    path = f"/v2.1/{path}{'&' if '?' in path else '?'}nonsense=1"
    assert (await stack.ask("GET", path, version="2.74")).status == 200
    assert (await stack.ask("GET", path, version="2.75")).status == 400


@pytest.mark.parametrize("version", ["2.1", "2.75", NEW])
async def test_quotas_accept_a_user(stack: Stack, version: str) -> None:
    """Berth has no quotas of users, so the answer is that of the project."""
    for path in ("os-quota-sets/web", "os-quota-sets/web/detail"):
        answer = await stack.ask("GET", f"/v2.1/{path}?user_id=u", version=version)
        assert answer.body == (await stack.ask("GET", f"/v2.1/{path}", version=version)).body


async def test_other_apis_are_not_affected(stack: Stack) -> None:
    """The rule belongs to the compute API."""
    headers = {"OpenStack-API-Version": "compute 2.104"}
    answer = await stack.ask("GET", "/berth/v1/status?nonsense=1", headers=headers)
    assert answer.status == 200


async def test_flavors_lose_two_fields(stack: Stack) -> None:
    """From 2.102 on, a flavor has no `rxtx_factor` and is not `disabled`."""
    gone = {"rxtx_factor", "OS-FLV-DISABLED:disabled"}
    flavor = {"id": "f", "name": "f", "vcpus": 1, "ram": 1, "disk": 0}
    made = await stack.ask("POST", "/v2.1/flavors", {"flavor": flavor}, version=NEW)
    assert made.status == 200
    changed = {"flavor": {"description": "d"}}
    answers: list[Json] = [
        made.body["flavor"],
        (await stack.ask("PUT", "/v2.1/flavors/f", changed, version=NEW)).body["flavor"],
        (await stack.ask("GET", "/v2.1/flavors/f", version=NEW)).body["flavor"],
        *(await stack.ask("GET", "/v2.1/flavors/detail", version=NEW)).body["flavors"],
    ]
    assert all(not gone & answer.keys() for answer in answers)
    old = (await stack.ask("GET", "/v2.1/flavors/f", version=OLD)).body["flavor"]
    assert (old["rxtx_factor"], old["OS-FLV-DISABLED:disabled"]) == (1.0, False)
    body = {"flavor": {**flavor, "id": "g", "name": "g", "rxtx_factor": 2.0}}
    assert (await stack.ask("POST", "/v2.1/flavors", body, version=NEW)).status == 400
    assert (await stack.ask("POST", "/v2.1/flavors", body, version=OLD)).status == 200
    path = "/v2.1/flavors?sort_key=rxtx_factor"
    assert (await stack.ask("GET", path, version=NEW)).status == 400
    assert (await stack.ask("GET", path, version=OLD)).status == 200


async def test_flavors_are_found_by_name(stack: Stack) -> None:
    """The filter is a regular expression from 2.102 on, refused from 2.75, and ignored before."""
    await stack.flavor("smaller")
    for query, version, found in (
        ("name=small", NEW, {"small", "smaller"}),
        ("name=^small$", NEW, {"small"}),
        ("name=none", NEW, set()),
        ("name=none", "2.1", {"small", "smaller"}),
    ):
        for form in ("flavors", "flavors/detail"):
            answer = await stack.ask("GET", f"/v2.1/{form}?{query}", version=version)
            assert {one["id"] for one in answer.body["flavors"]} == found
            refused = await stack.ask("GET", f"/v2.1/{form}?{query}", version=OLD)
            assert refused.status == 400
    assert (await stack.ask("GET", "/v2.1/flavors?name=(", version=NEW)).status == 400


async def test_a_server_is_pinned_to_the_zone_where_it_is(stack: Stack) -> None:
    """From 2.104 on, a server can be unpinned, and pinned to its current zone only."""
    uuid = await stack.server()
    await stack.activate(uuid)
    assert (await put(stack, uuid, "nova", version="2.103")).status == 400
    other = await put(stack, uuid, "other")
    assert other.status == 409
    assert other.body["conflictingRequest"]["message"] == (
        "Server can only be pinned to its current availability zone 'nova', but 'other' was "
        "requested."
    )
    for zone in ("nova", "nova", None, None):
        answer = await put(stack, uuid, zone)
        assert answer.status == 200
        assert answer.body["server"]["pinned_availability_zone"] == zone
        assert (await stack.parts.instances.get(uuid)).requested_zone == zone
    assert (await put(stack, uuid, "nova")).status == 200
    refused = await put(stack, uuid, "other")
    assert refused.status == 409
    assert refused.body["conflictingRequest"]["message"].startswith("Cannot change pinned")
    assert (await put(stack, uuid, "")).status == 400


async def test_a_server_without_a_host_is_in_no_zone(stack: Stack) -> None:
    """A server that no host has can be unpinned only."""
    body = {"name": "vm", "flavorRef": "huge", "networks": "none", "availability_zone": "nova"}
    await stack.flavor("huge", vcpus=1000)
    made = await stack.ask("POST", "/v2.1/servers", {"server": body}, version="2.90")
    uuid = made.body["server"]["id"]
    assert (await put(stack, uuid, "nova")).status == 200
    assert (await put(stack, uuid, None)).status == 200
    assert (await put(stack, uuid, "nova")).status == 409


async def test_the_alias_of_servers_does_not_exist(stack: Stack) -> None:
    """`os-volumes_boot`, which 2.103 removes, is unknown in every version."""
    for version in ("2.1", "2.103"):
        assert (await stack.ask("GET", "/v2.1/os-volumes_boot", version=version)).status == 404
    assert (await stack.ask("GET", "/v2.1/os-volumes")).status == 501


async def test_a_server_is_not_pinned_while_a_revert_may_move_it(stack: Stack) -> None:
    """The source of an unconfirmed resize may be in another zone; unpinning is harmless."""
    uuid = await stack.server()
    await stack.activate(uuid)
    await stack.parts.instances.save(
        replace(await stack.parts.instances.get(uuid), migration_uuid="m", status=Status.RESIZED)
    )
    refused = await put(stack, uuid, "nova")
    assert refused.status == 409
    assert "Confirm or revert it first" in refused.body["conflictingRequest"]["message"]
    assert (await put(stack, uuid, None)).status == 200


@pytest.mark.parametrize("task", [Task.RESIZE_PREP, Task.MIGRATING, Task.REBUILDING])
async def test_a_server_is_not_pinned_while_a_host_is_chosen_for_it(
    stack: Stack, task: Task
) -> None:
    """The chosen host may be in another zone; other tasks do not matter."""
    uuid = await stack.server()
    await stack.activate(uuid)
    for now, status in ((task, 409), (Task.POWERING_OFF, 200)):
        instance = await stack.parts.instances.get(uuid)
        await stack.parts.instances.save(replace(instance, task=now))
        answer = await put(stack, uuid, "nova")
        assert answer.status == status
    assert (await put(stack, uuid, None)).status == 200
