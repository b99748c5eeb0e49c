"""Quotas: reading, setting, and enforcement for creates, resizes and server groups."""

import asyncio
from dataclasses import replace

import pytest

from berth.domain.compute.instance import Instance, Status
from berth.domain.ledger.write import Free, Put
from tests.unit.api.cloud import Answer, Json, Stack

NEWEST = "2.96"
WEB = "/v2.1/os-quota-sets/web"
CLASS = "/v2.1/os-quota-class-sets/default"


async def limit(stack: Stack, **limits: object) -> Json:
    """Set limits of the project web, and return its new limits."""
    answer = await stack.ask("PUT", WEB, {"quota_set": limits}, version=NEWEST)
    assert answer.status == 200, answer.body
    found: Json = answer.body["quota_set"]
    return found


async def ask_for(stack: Stack, caller: str = "alice:web", **fields: object) -> tuple[int, Json]:
    """Request servers of 2 VCPU and 4 GiB, and return the status and the body."""
    server = {"name": "vm", "flavorRef": "small", "networks": "none", **fields}
    body = {"server": server}
    answer = await stack.ask("POST", "/v2.1/servers", body, version="2.90", token=caller)
    return answer.status, answer.body


async def keyed(stack: Stack, **counts: int) -> Answer:
    """Request so many servers with an Idempotency-Key, which is always the same."""
    server = {"name": "vm", "flavorRef": "small", "networks": "none", **counts}
    headers = {"Idempotency-Key": "one"}
    return await stack.ask(
        "POST",
        "/v2.1/servers",
        {"server": server},
        version="2.90",
        token="alice:web",
        headers=headers,
    )


async def used(stack: Stack) -> tuple[int, int, int]:
    """Return the instances, cores and memory that web uses, according to the limits API."""
    answer = await stack.ask("GET", "/v2.1/limits", token="alice:web")
    absolute = answer.body["limits"]["absolute"]
    names = ("totalInstancesUsed", "totalCoresUsed", "totalRAMUsed")
    return tuple(absolute[name] for name in names)


async def test_there_are_no_limits_unless_set(stack: Stack) -> None:
    """By default, nothing is limited; the project and administrators see its usage."""
    await stack.server(token="alice:web")
    shown = (await stack.ask("GET", WEB, token="alice:web")).body["quota_set"]
    assert (shown["id"], shown["cores"], shown["key_pairs"]) == ("web", -1, 100)
    detail = (await stack.ask("GET", f"{WEB}/detail")).body["quota_set"]
    assert detail["cores"] == {"limit": -1, "in_use": 2, "reserved": 0}
    assert (await stack.ask("GET", f"{WEB}/defaults")).body["quota_set"]["ram"] == -1
    assert (await stack.ask("GET", CLASS)).body["quota_class_set"]["instances"] == -1
    assert (await stack.ask("GET", WEB, token="bob")).status == 403


async def test_a_server_too_many_is_refused(stack: Stack) -> None:
    """A refusal names all exceeded quotas in Nova's words, and creates nothing."""
    changed = await limit(stack, instances=3, cores="5", ram=-1)
    assert (changed["instances"], changed["cores"], changed["ram"]) == (3, 5, -1)
    assert "id" not in changed
    assert (await ask_for(stack, min_count=2))[0] == 202
    status, body = await ask_for(stack, min_count=2)
    assert status == 403
    assert body["forbidden"]["message"] == (
        "Quota exceeded for cores, instances: Requested 4, 2, but already used 4, 2 of 5, 3 "
        "cores, instances"
    )
    assert await used(stack) == (2, 4, 8192)
    assert (await ask_for(stack, "bob:other"))[0] == 202
    detail = (await stack.ask("GET", f"{WEB}/detail")).body["quota_set"]
    assert detail["instances"] == {"limit": 3, "in_use": 2, "reserved": 0}


async def test_as_many_as_may_be_between_min_and_max(stack: Stack) -> None:
    """As many servers are created as the quota allows, if they are at least min_count."""
    await limit(stack, cores=6)
    assert (await ask_for(stack, min_count=2, max_count=5))[0] == 202
    assert await used(stack) == (3, 6, 12288)
    assert (await ask_for(stack, min_count=1, max_count=5))[0] == 403


async def test_a_repeated_request_gets_as_many_as_the_quota_allowed(stack: Stack) -> None:
    """With an Idempotency-Key, fewer servers than max_count are those of the same request."""
    await limit(stack, cores=6)
    answers = [await keyed(stack, min_count=2, max_count=5) for _ in range(2)]
    assert [one.status for one in answers] == [202, 202]
    assert answers[0].body["server"]["id"] == answers[1].body["server"]["id"]
    assert await used(stack) == (3, 6, 12288)
    for other in ({"min_count": 4, "max_count": 5}, {"min_count": 1, "max_count": 2}):
        assert (await keyed(stack, **other)).status == 409


async def test_servers_that_are_asked_for_at_once_do_not_pass_a_limit(stack: Stack) -> None:
    """Of nine simultaneous requests, only as many succeed as the limit allows."""
    await limit(stack, instances=4)
    answers = await asyncio.gather(*(ask_for(stack) for _ in range(9)))
    assert sorted(status for status, _ in answers) == [202] * 4 + [403] * 5
    assert (await used(stack))[0] == 4


async def test_servers_count_without_a_scheduler(stack: Stack) -> None:
    """Servers count from acceptance, before they are placed."""
    await limit(stack, instances=1)
    stack.stop_placing()
    assert (await ask_for(stack))[0] == 202
    assert (await ask_for(stack))[0] == 403
    assert await used(stack) == (1, 2, 4096)


async def test_servers_that_found_no_host_count_until_they_are_deleted(stack: Stack) -> None:
    """A server in ERROR counts, as in Nova."""
    await limit(stack, instances=1)
    await stack.flavor("huge", vcpus=1000)
    status, body = await ask_for(stack, flavorRef="huge")
    assert status == 202
    shown = await stack.ask("GET", f"/v2.1/servers/{body['server']['id']}")
    assert shown.body["server"]["status"] == "ERROR"
    assert (await ask_for(stack))[0] == 403


async def test_a_deleted_server_makes_room(stack: Stack) -> None:
    """After a server was deleted, another one can be created."""
    await limit(stack, instances=1)
    uuid = await stack.server(token="alice:web")
    assert (await ask_for(stack))[0] == 403
    instance = await stack.ledger.get(Instance, uuid)
    assert instance is not None
    gone = replace(instance, status=Status.DELETED, task=None)
    await stack.ledger.commit([(Free(uuid), Put(gone))])
    assert (await ask_for(stack))[0] == 202


async def test_a_resize_asks_for_the_difference(stack: Stack) -> None:
    """An accepted resize is charged with the larger size."""
    await stack.flavor("large", vcpus=6, ram=4096)
    await limit(stack, cores=6)
    uuid = await stack.server(token="alice:web")
    other = await stack.server(token="alice:web")
    for one in (uuid, other):
        await stack.activate(one)
    resize = {"resize": {"flavorRef": "large"}}
    path = f"/v2.1/servers/{uuid}/action"
    refused = await stack.ask("POST", path, resize, token="alice:web")
    assert refused.status == 403
    assert refused.body["forbidden"]["message"] == (
        "Quota exceeded for cores: Requested 4, but already used 4 of 6 cores"
    )
    await limit(stack, cores=8)
    assert (await stack.ask("POST", path, resize, token="alice:web")).status == 202
    assert await used(stack) == (2, 8, 8192)
    again = f"/v2.1/servers/{other}/action"
    assert (await stack.ask("POST", again, resize, token="alice:web")).status == 403


async def test_a_limit_below_what_there_is_wants_force(stack: Stack) -> None:
    """A limit below the usage needs `force`, and then prevents new servers."""
    await stack.server(token="alice:web")
    answer = await stack.ask("PUT", WEB, {"quota_set": {"cores": 1}})
    assert answer.status == 400
    assert "force" in answer.body["badRequest"]["message"]
    assert (await limit(stack, cores=1, force=True))["cores"] == 1
    assert (await ask_for(stack))[0] == 403


async def test_what_is_reset_follows_the_defaults(stack: Stack) -> None:
    """The defaults apply to a project without limits, and again after a reset."""
    answer = await stack.ask("PUT", CLASS, {"quota_class_set": {"instances": 0}}, version=NEWEST)
    assert answer.body["quota_class_set"]["instances"] == 0
    assert (await ask_for(stack))[0] == 403
    await limit(stack, instances=1)
    assert (await ask_for(stack))[0] == 202
    assert (await stack.ask("DELETE", WEB)).status == 202
    assert (await stack.ask("DELETE", WEB)).status == 202
    shown = (await stack.ask("GET", f"{WEB}/defaults")).body["quota_set"]
    assert shown == (await stack.ask("GET", WEB)).body["quota_set"]
    assert shown["instances"] == 0


async def test_server_groups_and_their_members_are_limited(stack: Stack) -> None:
    """A group or a member beyond its limit is refused."""
    await limit(stack, server_groups=1, server_group_members=2)

    async def make() -> tuple[int, Json]:
        body = {"server_group": {"name": "g", "policies": ["anti-affinity"]}}
        answer = await stack.ask("POST", "/v2.1/os-server-groups", body, token="alice:web")
        return answer.status, answer.body

    status, body = await make()
    assert status == 200
    assert (await make())[0] == 403
    hints = {"group": body["server_group"]["id"]}

    async def join(count: int) -> int:
        server = {"name": "m", "flavorRef": "small", "networks": "none", "min_count": count}
        asked = {"server": server, "os:scheduler_hints": hints}
        answer = await stack.ask("POST", "/v2.1/servers", asked, version="2.90", token="alice:web")
        return answer.status

    assert [await join(3), await join(2), await join(1)] == [403, 202, 403]


@pytest.mark.parametrize(
    ("path", "body", "version", "said"),
    [
        (WEB, {"quota_set": {"injected_files": 11}}, "2.56", "between -1 and 10, not 11"),
        (WEB, {"quota_set": {"injected_files": 1}}, "2.57", "does not exist in this microversion"),
        (WEB, {"quota_set": {"floating_ips": -1}}, "2.36", "does not exist in this microversion"),
        (WEB, {"quota_set": {"cores": -2}}, NEWEST, "cores"),
        (WEB, {"quota_set": {"cores": "-7"}}, NEWEST, "must be between -1 and"),
        (WEB, {"quota_set": {"volumes": 1}}, NEWEST, "volumes"),
        (f"{WEB}?user_id=u", {"quota_set": {"cores": 1}}, NEWEST, "apply to projects"),
        (CLASS.replace("default", "gold"), {"quota_class_set": {}}, NEWEST, "'default'"),
    ],
)
async def test_what_cannot_be_limited_is_refused(
    stack: Stack, path: str, body: Json, version: str, said: str
) -> None:
    """A limit that Berth cannot enforce is refused with the reason."""
    answer = await stack.ask("PUT", path, body, version=version)
    assert answer.status == 400
    assert said in answer.body["badRequest"]["message"]


async def test_only_administrators_set_quotas(stack: Stack) -> None:
    """Other users cannot change or reset the quotas of their project."""
    for method, body in (("PUT", {"quota_set": {"cores": 1}}), ("DELETE", None)):
        assert (await stack.ask(method, WEB, body, token="alice:web")).status == 403


async def test_files_to_inject_have_quotas(stack: Stack) -> None:
    """They are set, enforced and shown before 2.57; -1 stands for the maximum."""
    names = ("injected_files", "injected_file_content_bytes", "injected_file_path_bytes")
    shown = (await stack.ask("GET", WEB, version="2.56")).body["quota_set"]
    assert [shown[name] for name in names] == [5, 10_240, 255]
    assert not set(names) & set((await stack.ask("GET", WEB, version="2.57")).body["quota_set"])
    body = {"quota_set": {"injected_files": -1, "injected_file_content_bytes": 3}}
    assert (await stack.ask("PUT", WEB, body, version="2.56")).status == 200
    limits = await stack.ask("GET", "/v2.1/limits", version="2.56", token="alice:web")
    absolute = limits.body["limits"]["absolute"]
    assert (absolute["maxPersonality"], absolute["maxPersonalitySize"]) == (-1, 3)

    async def create(count: int, contents: str) -> int:
        files = [{"path": "/a", "contents": contents}] * count
        body = {"server": {"name": "vm", "flavorRef": "small", "personality": files}}
        answer = await stack.ask("POST", "/v2.1/servers", body, version="2.36", token="alice:web")
        return answer.status

    assert [await create(1, "YQ=="), await create(11, ""), await create(10, "")] == [403, 403, 202]
