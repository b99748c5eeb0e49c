"""Server groups in the compute API."""

from dataclasses import replace

import pytest

from berth.domain.compute.instance import Status
from tests.unit.api.cloud import Answer, Json, Stack

PATH = "/v2.1/os-server-groups"


async def create(stack: Stack, group: Json, version: str, token: str | None = None) -> Answer:
    """Create a server group and return the answer."""
    body = {"server_group": {"name": "g", **group}}
    return await stack.ask("POST", PATH, body, version=version, token=token)


async def test_before_2_64_policies_are_a_list(stack: Stack) -> None:
    """Before 2.64, a group has a list of exactly one policy."""
    answer = await create(stack, {"policies": ["affinity"]}, "2.1")
    assert answer.status == 200
    group = answer.body["server_group"]
    assert group == {
        "id": group["id"],
        "name": "g",
        "policies": ["affinity"],
        "members": [],
        "metadata": {},
    }
    shown = await stack.ask("GET", f"{PATH}/{group['id']}", version="2.13")
    assert shown.body["server_group"]["project_id"] == "admin"


async def test_from_2_64_on_there_is_one_policy_with_rules(stack: Stack) -> None:
    """From 2.64 on, a group has one policy and rules, whose number may be a string."""
    rules = {"max_server_per_host": "2"}
    answer = await create(stack, {"policy": "anti-affinity", "rules": rules}, "2.64", "bob:web")
    group = answer.body["server_group"]
    assert group == {
        "id": group["id"],
        "name": "g",
        "policy": "anti-affinity",
        "rules": {"max_server_per_host": 2},
        "members": [],
        "project_id": "web",
        "user_id": "bob",
    }


@pytest.mark.parametrize(
    ("group", "version"),
    [
        ({}, "2.1"),
        ({}, "2.64"),
        ({"policies": []}, "2.1"),
        ({"policies": ["affinity", "anti-affinity"]}, "2.1"),
        ({"policies": ["soft-affinity"]}, "2.14"),
        ({"policies": ["legacy"]}, "2.15"),
        ({"policies": ["affinity"]}, "2.64"),
        ({"policy": "affinity"}, "2.63"),
        ({"policies": ["anti-affinity"], "rules": {"max_server_per_host": 2}}, "2.63"),
        ({"policy": "affinity", "rules": {"max_server_per_host": 2}}, "2.64"),
        ({"policy": "anti-affinity", "rules": {"max_server_per_host": 0}}, "2.64"),
        ({"policy": "anti-affinity", "rules": {"other": 1}}, "2.64"),
        ({"policy": "affinity", "name": ""}, "2.64"),
    ],
)
async def test_bad_groups_are_refused(stack: Stack, group: Json, version: str) -> None:
    """Each microversion refuses the fields and policies of others."""
    assert (await create(stack, group, version)).status == 400


@pytest.mark.parametrize("policy", ["soft-affinity", "soft-anti-affinity"])
async def test_soft_policies_are_there_from_2_15_on(stack: Stack, policy: str) -> None:
    """The soft policies are accepted in 2.15."""
    assert (await create(stack, {"policies": [policy]}, "2.15")).status == 200


async def test_members_are_the_servers_that_name_it(stack: Stack) -> None:
    """The members are the servers whose hint names the group, oldest first."""
    answer = await create(stack, {"policies": ["anti-affinity"]}, "2.1")
    group = answer.body["server_group"]["id"]
    made: list[str] = []
    for _ in range(2):
        body = {
            "server": {"name": "vm", "flavorRef": "small"},
            "os:scheduler_hints": {"group": group},
        }
        made.append((await stack.ask("POST", "/v2.1/servers", body)).body["server"]["id"])
        stack.clock.seconds += 1
    shown = await stack.ask("GET", f"{PATH}/{group}")
    assert shown.body["server_group"]["members"] == made
    server = (await stack.ask("GET", f"/v2.1/servers/{made[0]}", version="2.71")).body["server"]
    assert server["server_groups"] == [group]
    # As in Nova, a deleted server is hidden while it can be restored.
    member = await stack.parts.instances.get(made[0])
    await stack.parts.instances.save(replace(member, status=Status.SOFT_DELETED))
    shown = await stack.ask("GET", f"{PATH}/{group}")
    assert shown.body["server_group"]["members"] == made[1:]


async def test_a_project_sees_its_own(stack: Stack) -> None:
    """Only administrators can list all groups; another project's group gets 404."""
    await create(stack, {"policy": "affinity", "name": "a"}, "2.64", "bob")
    other = await create(stack, {"policy": "affinity", "name": "b"}, "2.64", "eve")
    path = f"{PATH}/{other.body['server_group']['id']}"

    async def names(query: str, token: str | None) -> list[str]:
        groups = (await stack.ask("GET", PATH + query, token=token)).body["server_groups"]
        return sorted(group["name"] for group in groups)

    assert await names("", "bob") == ["a"]
    assert await names("?all_projects=1", "bob") == ["a"]
    assert await names("", None) == []
    assert await names("?all_projects=1", None) == ["a", "b"]
    assert len(await names("?all_projects=1&limit=1&offset=1", None)) == 1
    assert (await stack.ask("GET", path, token="bob")).status == 404
    assert (await stack.ask("DELETE", path, token="bob")).status == 404
    assert (await stack.ask("DELETE", path)).status == 204
    assert (await stack.ask("GET", path)).status == 404
