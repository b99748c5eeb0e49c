"""Tags, limits, lists that are always empty, and routes that Berth does not support."""

import pytest

from tests.unit.api.cloud import Stack

NEWEST = "2.96"


async def test_tags_come_and_go(stack: Stack) -> None:
    """Tags are set one by one or together, and repeated ones are stored once."""
    path = f"/v2.1/servers/{await stack.server()}/tags"

    async def asked(method: str, end: str = "", body: object = None) -> int:
        return (await stack.ask(method, path + end, body, version=NEWEST)).status

    assert await asked("PUT", body={"tags": ["a", "b", "a"]}) == 200
    assert (await stack.ask("GET", path, version=NEWEST)).body == {"tags": ["a", "b"]}
    assert [await asked("PUT", "/c"), await asked("PUT", "/c")] == [201, 204]
    assert [await asked("GET", "/c"), await asked("GET", "/d")] == [204, 404]
    assert [await asked("DELETE", "/a"), await asked("DELETE", "/a")] == [204, 404]
    assert (await stack.ask("GET", path, version=NEWEST)).body == {"tags": ["b", "c"]}
    assert await asked("DELETE") == 204
    assert (await stack.ask("GET", path, version=NEWEST)).body == {"tags": []}
    assert (await stack.ask("GET", path, version="2.25")).status == 404


async def test_a_new_tag_has_a_location(stack: Stack) -> None:
    """The response to a new tag says where it is; that to a tag the server has does not."""
    path = f"/v2.1/servers/{await stack.server()}/tags/a%20b"
    new = await stack.ask("PUT", path, version=NEWEST)
    assert new.headers["location"] == f"http://berth.test{path}"
    assert (await stack.ask("GET", new.headers["location"], version=NEWEST)).status == 204
    assert "location" not in (await stack.ask("PUT", path, version=NEWEST)).headers


@pytest.mark.parametrize("end", ["/a,b", "/" + "x" * 61])
async def test_what_is_no_tag_is_refused(stack: Stack, end: str) -> None:
    """A tag with a comma or of more than 60 characters gets 400."""
    path = f"/v2.1/servers/{await stack.server()}/tags"
    assert (await stack.ask("PUT", path + end, version=NEWEST)).status == 400


async def test_a_server_has_fifty_tags_at_most(stack: Stack) -> None:
    """A 51st tag is refused, and an existing one is not."""
    path = f"/v2.1/servers/{await stack.server()}/tags"
    tags = [str(number) for number in range(50)]
    assert (await stack.ask("PUT", path, {"tags": tags}, version=NEWEST)).status == 200
    assert (await stack.ask("PUT", f"{path}/51", version=NEWEST)).status == 400
    assert (await stack.ask("PUT", f"{path}/49", version=NEWEST)).status == 204


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("tags=a", ["both", "one"]),
        ("tags=a,b", ["both"]),
        ("tags-any=b,c", ["both"]),
        ("not-tags=a,b", ["none", "one"]),
        ("not-tags-any=a,c", ["none"]),
        ("tags=a&not-tags=b", ["one"]),
    ],
)
async def test_servers_are_listed_by_tags(stack: Stack, query: str, names: list[str]) -> None:
    """Servers are filtered by all or any of several tags, present or absent."""
    for name, tags in (("one", ["a"]), ("both", ["a", "b"]), ("none", [])):
        await stack.server(name=name, tags=tags)
    found = (await stack.ask("GET", f"/v2.1/servers?{query}", version=NEWEST)).body["servers"]
    assert sorted(server["name"] for server in found) == names


async def test_limits_tell_what_is_used(stack: Stack) -> None:
    """The usage is shown without limits; only administrators see that of another project."""
    await stack.server(token="alice:web")
    await stack.ask(
        "POST",
        "/v2.1/os-server-groups",
        {"server_group": {"name": "g", "policies": ["affinity"]}},
        token="alice:web",
    )
    answer = await stack.ask("GET", "/v2.1/limits", token="alice:web")
    absolute = answer.body["limits"]["absolute"]
    assert answer.body["limits"]["rate"] == []
    assert (absolute["totalInstancesUsed"], absolute["maxTotalInstances"]) == (1, -1)
    assert (absolute["totalCoresUsed"], absolute["totalRAMUsed"]) == (2, 4096)
    assert absolute["totalServerGroupsUsed"] == 1
    by_admin = await stack.ask("GET", "/v2.1/limits?tenant_id=web")
    assert by_admin.body == answer.body
    other = await stack.ask("GET", "/v2.1/limits?tenant_id=web", token="bob")
    assert other.status == 403


@pytest.mark.parametrize(
    ("end", "key"),
    [
        ("servers/{server}/os-volume_attachments", "volumeAttachments"),
        ("servers/{server}/os-interface", "interfaceAttachments"),
    ],
)
async def test_what_there_is_none_of_is_an_empty_list(stack: Stack, end: str, key: str) -> None:
    """The list is empty, and a creation gets 403."""
    path = "/v2.1/" + end.format(server=await stack.server())
    assert (await stack.ask("GET", path)).body == {key: []}
    assert (await stack.ask("POST", path, {})).status == 403


async def test_a_server_has_no_addresses(stack: Stack) -> None:
    """A server has no networks, so its list of addresses is empty."""
    path = f"/v2.1/servers/{await stack.server()}/ips"
    assert (await stack.ask("GET", path)).body == {"addresses": {}}
    assert (await stack.ask("GET", f"{path}/private")).status == 404
    assert (await stack.ask("GET", "/v2.1/servers/none/ips")).status == 404


async def test_a_deleted_group_is_not_shown(stack: Stack) -> None:
    """After its group was deleted, a server shows no group."""
    group = {"server_group": {"name": "g", "policy": "affinity"}}
    made = await stack.ask("POST", "/v2.1/os-server-groups", group, version="2.64")
    uuid = made.body["server_group"]["id"]
    server = {"name": "vm", "flavorRef": "small", "networks": "none"}
    body = {"server": server, "os:scheduler_hints": {"group": uuid}}
    created = await stack.ask("POST", "/v2.1/servers", body, version="2.71")
    path = f"/v2.1/servers/{created.body['server']['id']}"
    assert (await stack.ask("GET", path, version="2.71")).body["server"]["server_groups"] == [uuid]
    await stack.ask("DELETE", f"/v2.1/os-server-groups/{uuid}")
    assert (await stack.ask("GET", path, version="2.71")).body["server"]["server_groups"] == []


async def test_extensions_are_named(stack: Stack) -> None:
    """Extensions that clients look for are listed and shown."""
    listed = (await stack.ask("GET", "/v2.1/extensions")).body["extensions"]
    shown = await stack.ask("GET", "/v2.1/extensions/OS-SCH-HNT")
    assert shown.body["extension"] in listed
    assert (await stack.ask("GET", "/v2.1/extensions/nope")).status == 404


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("os-networks", "networks"),
        ("os-security-groups/default", "networks"),
        ("servers/x/os-interface/y", "networks"),
        ("os-volumes", "volumes"),
        ("servers/x/topology", "topology"),
        ("os-agents", "guest agents"),
        ("nonsense", None),
        ("os-networking", None),
        ("os-volumesx", None),
        ("os-floating-ip-x", None),
        ("os-security-groupsx/1", None),
    ],
)
async def test_what_berth_has_not_is_said(stack: Stack, path: str, told: str | None) -> None:
    """An unsupported route of Nova gets 501 with the reason, and any other path 404."""
    answer = await stack.ask("GET", f"/v2.1/{path}")
    assert answer.status == (404 if told is None else 501)
    if told is not None:
        assert told in answer.body["notImplemented"]["message"]


@pytest.mark.parametrize(
    "path", ["os-networks", "os-volumes/1", "os-security-groups", "os-snapshots"]
)
async def test_proxies_end_with_2_35(stack: Stack, path: str) -> None:
    """From 2.36 on Nova has no proxies to other services either, so their paths are unknown."""
    assert (await stack.ask("GET", f"/v2.1/{path}", version="2.35")).status == 501
    assert (await stack.ask("GET", f"/v2.1/{path}", version="2.36")).status == 404


async def test_a_server_has_no_security_groups(stack: Stack) -> None:
    """The list is empty, and that of an unknown server is not found."""
    path = f"/v2.1/servers/{await stack.server()}/os-security-groups"
    answer = await stack.ask("GET", path)
    assert (answer.status, answer.body) == (200, {"security_groups": []})
    assert (await stack.ask("GET", "/v2.1/servers/x/os-security-groups")).status == 404


@pytest.mark.parametrize(
    ("asked", "version", "addresses"),
    [
        ({"networks": "none"}, NEWEST, {}),
        ({"networks": "auto"}, NEWEST, {"auto_allocated_network": []}),
        ({"networks": []}, NEWEST, {"auto_allocated_network": []}),
        ({}, "2.36", {"auto_allocated_network": []}),
    ],
)
async def test_a_launched_server_has_a_network_unless_it_requested_none(
    stack: Stack, asked: dict[str, object], version: str, addresses: dict[str, object]
) -> None:
    """From its launch on, a server has a network without addresses; with `none` it has none."""
    body = {"server": {"name": "vm", "flavorRef": "small", **asked}}
    uuid = (await stack.ask("POST", "/v2.1/servers", body, version=version)).body["server"]["id"]
    path = f"/v2.1/servers/{uuid}"
    assert (await stack.ask("GET", path)).body["server"]["addresses"] == {}
    await stack.activate(uuid)
    assert (await stack.ask("GET", path)).body["server"]["addresses"] == addresses
    assert (await stack.ask("GET", f"{path}/ips")).body == {"addresses": addresses}
    for network in ("auto_allocated_network", "other"):
        one = await stack.ask("GET", f"{path}/ips/{network}")
        assert one.status == (200 if network in addresses else 404)
        assert one.status == 404 or one.body == {network: []}
