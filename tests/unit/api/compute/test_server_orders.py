"""The fields and hints of requests for new servers."""

import pytest

from berth.api.compute.handlers.servers.server_orders import Asked
from berth.domain.compute.flavor import Image
from berth.domain.compute.instance import Instance
from berth.domain.errors import InvalidInputError
from berth.services.servers.instances import CreateOrder
from tests.unit.api.cloud import Answer, Json, Stack
from tests.unit.api.conftest import MakeStack

IMAGE = "70a599e0-31e7-49b7-b260-868f441e862b"
GROUP = {"server_group": {"name": "g", "policy": "anti-affinity"}}


async def create(
    stack: Stack, version: str = "2.1", token: str | None = None, hints: object = None, **v: object
) -> Answer:
    """Request a server and return the answer."""
    body: Json = {"server": {"name": "vm", "flavorRef": "small", **v}}
    if hints is not None:
        body["os:scheduler_hints"] = hints
    return await stack.ask("POST", "/v2.1/servers", body, version=version, token=token)


async def made(stack: Stack, answer: Answer) -> Instance:
    """Return the instance that was created."""
    assert answer.status == 202, answer.body
    instance = await stack.ledger.get(Instance, answer.body["server"]["id"])
    assert instance is not None
    return instance


def reason(answer: Answer) -> str:
    """Return the message of a request that got 400."""
    assert answer.status == 400, answer.body
    message: str = answer.body["badRequest"]["message"]
    return message


@pytest.mark.parametrize(
    "ref", ["small", "http://cloud/v2.1/flavors/small", "http://cloud/flavors/small/"]
)
async def test_a_flavor_is_named_by_id_or_link(stack: Stack, ref: str) -> None:
    """A flavor is named by its id or by a link of any version."""
    assert (await made(stack, await create(stack, flavorRef=ref))).flavor.flavor_id == "small"


async def test_the_openstack_client_is_understood(stack: Stack) -> None:
    """The recorded body of `openstack server create`, with its own key for hints, is accepted."""
    other = await stack.server(name="other")
    body = {
        "server": {
            "name": "vm1",
            "flavorRef": "small",
            "imageRef": IMAGE,
            "min_count": 1,
            "max_count": 3,
            "networks": "none",
            "availability_zone": "nova",
            "block_device_mapping_v2": [
                {
                    "uuid": IMAGE,
                    "boot_index": 0,
                    "source_type": "image",
                    "destination_type": "local",
                    "delete_on_termination": True,
                }
            ],
        },
        "OS-SCH-HNT:scheduler_hints": {
            "same_host": [other, other],
            "different_host": other.upper(),
        },
    }
    answer = await stack.ask("POST", "/v2.1/servers", body, version="2.100")
    instance = await made(stack, answer)
    assert instance.hints == {"same_host": (other, other), "different_host": (other,)}
    assert instance.image == Image(IMAGE)
    assert instance.name == "vm1-1"


async def test_novaclient_is_understood(stack: Stack) -> None:
    """The recorded body of `nova boot`, whose boot index is a string, is accepted."""
    device = {
        "uuid": IMAGE,
        "boot_index": "0",
        "source_type": "image",
        "destination_type": "local",
        "delete_on_termination": True,
    }
    answer = await create(
        stack,
        "2.96",
        imageRef="",
        min_count=1,
        max_count=1,
        networks="auto",
        block_device_mapping_v2=[device],
        hints={},
    )
    assert (await made(stack, answer)).image == Image(IMAGE)


@pytest.mark.parametrize(
    ("counts", "number"),
    [
        ({}, 1),
        ({"min_count": "2"}, 2),
        ({"max_count": "3"}, 3),
        ({"min_count": 2, "max_count": 4}, 4),
    ],
)
async def test_max_count_servers_are_made(stack: Stack, counts: Json, number: int) -> None:
    """max_count servers are created if there is room; it defaults to min_count."""
    await create(stack, **counts)
    listed = await stack.ask("GET", "/v2.1/servers")
    assert len(listed.body["servers"]) == number


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"name": ""}, "server.name"),
        ({"name": "x" * 256}, "server.name"),
        ({"name": "a\nb"}, "server.name"),
        ({"name": None}, "server.name"),
        ({"flavorRef": ""}, "server.flavorRef"),
        ({"flavorRef": "none"}, "server.flavorRef"),
        ({"min_count": 0}, "server.min_count"),
        ({"min_count": "x"}, "server.min_count"),
        ({"min_count": -1}, "server.min_count"),
        ({"min_count": 3, "max_count": 2}, "server.min_count"),
        ({"max_count": 10_001}, "server.max_count"),
        ({"max_count": 2**40}, "server.max_count"),
        ({"max_count": 1.5}, "server.max_count"),
        ({"metadata": {"k": "v" * 256}}, "server.metadata"),
        ({"metadata": {"k" * 256: "v"}}, "server.metadata"),
        ({"metadata": {"k!": "v"}}, "server.metadata"),
        ({"metadata": {"k": 1}}, "server.metadata"),
        ({"availability_zone": "nowhere"}, "server.availability_zone"),
        ({"availability_zone": "a:b:c:d"}, "server.availability_zone"),
        ({"availability_zone": "nova:nohost"}, "server.availability_zone"),
        ({"networks": "auto"}, "server.networks"),
        ({"config_drive": "maybe"}, "server.config_drive"),
        ({"security_groups": ["default"]}, "server.security_groups"),
        ({"nonsense": 1}, "server"),
        ({"user_data": "x" * 65_536}, "server.user_data"),
        ({"user_data": "x"}, "server.user_data"),
        ({"user_data": "\N{LATIN SMALL LETTER E WITH ACUTE}"}, "server.user_data"),
        ({"name": " "}, "server.name"),
        ({"name": "vm "}, "server.name"),
        ({"OS-DCF:diskConfig": "SOMEHOW"}, "server.OS-DCF:diskConfig"),
        ({"accessIPv4": "::1"}, "server.accessIPv4"),
        ({"accessIPv6": ""}, "server.accessIPv6"),
        ({"key_name": "mine"}, "server.key_name"),
        ({"networks": [{"uuid": "x"}]}, "server.networks[0]"),
        ({"networks": [{"port": "x"}]}, "server.networks[0]"),
        ({"block_device_mapping": [{"volume_id": "v"}]}, "server.block_device_mapping[0]"),
        (
            {"block_device_mapping_v2": [{"source_type": "volume", "uuid": "v", "boot_index": 0}]},
            "server.block_device_mapping_v2[0]",
        ),
        (
            {
                "block_device_mapping_v2": [
                    {"source_type": "image", "destination_type": "local", "uuid": IMAGE},
                    {"source_type": "blank", "destination_type": "volume"},
                ]
            },
            "server.block_device_mapping_v2[1]",
        ),
    ],
)
async def test_a_bad_request_is_told_its_field(stack: Stack, values: Json, field: str) -> None:
    """The error begins with the path of the field, and nothing is created."""
    assert reason(await create(stack, **values)).startswith(f"{field}")
    assert (await stack.ask("GET", "/v2.1/servers?all_tenants=1")).body["servers"] == []


@pytest.mark.parametrize(
    ("version", "values"),
    [
        ("2.93", {"hostname": "a.b"}),
        ("2.94", {"hostname": "a."}),
        ("2.90", {"hostname": "-a"}),
        ("2.90", {"hostname": "a_b"}),
        ("2.90", {"hostname": "abc", "max_count": 2}),
        ("2.90", {"trusted_image_certificates": []}),
        ("2.90", {"trusted_image_certificates": ["x", "x"]}),
    ],
)
async def test_newer_values_are_checked_too(stack: Stack, version: str, values: Json) -> None:
    """Fields of newer microversions are validated as in Nova."""
    (name, *_) = values
    answer = await create(stack, version, networks="none", **values)
    assert reason(answer).startswith(f"server.{name}")


async def test_local_disks_are_taken(stack: Stack) -> None:
    """Local devices for the image, an ephemeral disk and swap are accepted."""
    local = {"source_type": "blank", "destination_type": "local", "boot_index": -1}
    devices = [
        {"source_type": "image", "destination_type": "local", "uuid": IMAGE, "boot_index": 0},
        {**local, "guest_format": "swap", "volume_size": 1},
        local,
    ]
    assert (await create(stack, block_device_mapping_v2=devices)).status == 202


@pytest.mark.parametrize(
    ("since", "values"),
    [
        ("2.19", {"description": "x"}),
        ("2.52", {"tags": ["x"]}),
        ("2.63", {"trusted_image_certificates": ["x"]}),
        ("2.74", {"host": "host-0"}),
        ("2.74", {"hypervisor_hostname": "node-0"}),
        ("2.90", {"hostname": "x"}),
    ],
)
async def test_fields_come_with_their_version(stack: Stack, since: str, values: Json) -> None:
    """Before its microversion, a field is refused as unknown."""
    if since > "2.37":
        values = {**values, "networks": "none"}
    before = f"2.{int(since.split('.')[1]) - 1}"
    (name, *_) = values
    assert reason(await create(stack, before, **values)).startswith(f"server.{name}")
    assert (await create(stack, since, **values)).status == 202


async def test_networks_are_asked_for_from_2_37_on(stack: Stack) -> None:
    """From 2.37 on, networks are required and may be `none`, `auto` or an empty list."""
    assert reason(await create(stack, "2.37")).startswith("server.networks: is required")
    assert reason(await create(stack, "2.37", networks="many")).startswith("server.networks")
    usual: tuple[object, ...] = ("none", "auto", [])
    for networks in usual:
        assert (await create(stack, "2.37", networks=networks)).status == 202
    assert (await create(stack, "2.36")).status == 202


async def test_personality_is_gone(stack: Stack) -> None:
    """Before 2.57, files are stored and need a config drive; later versions have no such field."""
    files = [{"path": "/etc/x", "contents": "aGk="}]
    instance = await made(stack, await create(stack, "2.36", personality=files))
    assert instance.extra["files"] == files
    assert instance.extra["has_config_drive"] is True
    instance = await made(stack, await create(stack, "2.36", personality=[]))
    assert "files" not in instance.extra
    assert "has_config_drive" not in instance.extra
    files[0]["contents"] = "This is a test file."
    assert reason(await create(stack, "2.36", personality=files)) == (
        "server.personality[0].contents: is not valid base64"
    )
    answer = await create(stack, "2.57", personality=files, networks="none")
    assert reason(answer).startswith("server.personality")


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ([("/a", "YQ==")] * 6, "Personality file limit exceeded: at most 5"),
        ([("/" + "a" * 255, "YQ==")], "path exceeds maximum 255"),
        ([("/" + "\N{LATIN SMALL LETTER E WITH ACUTE}" * 130, "YQ==")], "path exceeds maximum 255"),
        ([("/a", "YWFh" * 2_561)], "Personality file content exceeds maximum 10240"),
        ([("/a", "YWFh" * 2_560)] * 5, ""),
    ],
)
async def test_files_have_limits(stack: Stack, files: list[tuple[str, str]], told: str) -> None:
    """The number of files, and the lengths of each path and content, have Nova's limits."""
    named = [{"path": path, "contents": contents} for path, contents in files]
    answer = await create(stack, "2.36", personality=named)
    if not told:
        assert answer.status == 202
        return
    assert answer.status == 403
    (fault,) = answer.body.values()
    assert told in fault["message"]


async def test_an_administrator_may_name_the_host(stack: Stack) -> None:
    """The host is named in the zone or, from 2.74 on, in its own fields."""
    for host in ("host-0", "host-1", "host-2"):
        forced = await create(stack, availability_zone=f"nova:{host}")
        assert (await made(stack, forced)).host == host
        asked = await create(stack, "2.74", host=host, networks="none")
        assert (await made(stack, asked)).host == host
        node = host.replace("host", "node")
        both = {"host": host, "hypervisor_hostname": node, "networks": "none"}
        assert (await made(stack, await create(stack, "2.74", **both))).node == node
        alone = await create(stack, "2.74", hypervisor_hostname=node, networks="none")
        assert (await made(stack, alone)).node == node


@pytest.mark.parametrize(
    "values",
    [
        {"availability_zone": "nova:host-0"},
        {"host": "host-0"},
        {"hypervisor_hostname": "node-0"},
    ],
)
async def test_nobody_else_may(stack: Stack, values: Json) -> None:
    """Users who are not administrators get 403."""
    answer = await create(stack, "2.74", token="bob", networks="none", **values)
    assert answer.status == 403


async def test_a_host_is_named_once(stack: Stack) -> None:
    """A host in both the zone and a field is refused, and so is an unknown node."""
    values = {"availability_zone": "nova:host-0", "host": "host-0", "networks": "none"}
    assert "availability_zone" in reason(await create(stack, "2.74", **values))
    values = {"hypervisor_hostname": "none", "networks": "none"}
    assert "hypervisor_hostname" in reason(await create(stack, "2.74", **values))


@pytest.mark.parametrize(
    ("hints", "field"),
    [
        ({"same_host": 1}, "os:scheduler_hints.same_host"),
        ({"query": {"a": "b"}}, "os:scheduler_hints.query"),
        ({"_nova_check_type": "rebuild"}, "os:scheduler_hints._nova_check_type"),
        ({"same_host": [1]}, "os:scheduler_hints"),
        ({"same_host": "vm1"}, "os:scheduler_hints.same_host"),
        ({"different_host": ["vm1"]}, "os:scheduler_hints.different_host"),
        ({"different_host": ""}, "os:scheduler_hints.different_host"),
        ({"group": "none"}, "os:scheduler_hints.group"),
        ({"x" * 256: "y"}, "os:scheduler_hints"),
        ([], "os:scheduler_hints"),
    ],
)
async def test_hints_are_texts(stack: Stack, hints: object, field: str) -> None:
    """A hint is a string or a list of strings; same_host and different_host need ids."""
    assert reason(await create(stack, hints=hints)).startswith(field)


async def test_a_group_must_be_the_projects_own(stack: Stack) -> None:
    """Another project's group is refused, except for administrators."""
    group = await stack.ask("POST", "/v2.1/os-server-groups", GROUP, version="2.64", token="bob")
    hints = {"group": group.body["server_group"]["id"]}
    assert "could not be found" in reason(await create(stack, token="eve", hints=hints))
    assert (await create(stack, token="bob", hints=hints)).status == 202
    assert (await create(stack, hints=hints)).status == 202


async def test_a_server_is_in_one_group(stack: Stack) -> None:
    """A hint with two groups is refused."""
    group = await stack.ask("POST", "/v2.1/os-server-groups", GROUP, version="2.64")
    uuid = group.body["server_group"]["id"]
    answer = await create(stack, hints={"group": [uuid, uuid]})
    assert reason(answer) == "os:scheduler_hints.group: must be one server group, not 2"
    assert (await create(stack, hints={"group": [uuid]})).status == 202


async def test_a_private_flavor_is_for_administrators(stack: Stack) -> None:
    """For other users, a private flavor is refused like a missing one."""
    await stack.flavor("private", **{"os-flavor-access:is_public": False})
    answer = await create(stack, token="bob", flavorRef="private")
    assert reason(answer) == "server.flavorRef: flavor 'private' could not be found"
    answer = await create(stack, token="bob", flavorRef="missing")
    assert reason(answer) == "server.flavorRef: flavor 'missing' could not be found"
    assert (await create(stack, flavorRef="private")).status == 202


async def test_a_new_flavor_can_be_used_at_once(stack: Stack) -> None:
    """A flavor can be used immediately after its creation, by any user."""
    await stack.flavor("newest")
    assert (await create(stack, token="bob", flavorRef="newest")).status == 202


async def test_configured_images_are_the_only_ones(make_stack: MakeStack) -> None:
    """With configured images, others are refused, and so are too small flavors."""
    image = Image(IMAGE, "cirros", {"hw_architecture": "x86_64"}, min_memory_mb=8192)
    stack = await make_stack(images={IMAGE: image})
    await stack.flavor()
    await stack.flavor("big", ram=8192)
    assert reason(await create(stack, imageRef="none")).startswith("server.imageRef")
    device = {"uuid": "none", "boot_index": 0, "source_type": "image"}
    answer = await create(stack, block_device_mapping_v2=[device])
    assert reason(answer).startswith("server.block_device_mapping_v2[0].uuid")
    device = {"image_id": "none", "boot_index": 0, "source_type": "image"}
    answer = await create(stack, block_device_mapping_v2=[device])
    assert reason(answer).startswith("server.block_device_mapping_v2[0].image_id")
    answer = await create(stack, imageRef=IMAGE)
    assert "too small for the image" in reason(answer)
    answer = await create(stack, flavorRef="big", imageRef=f"http://glance/v2/images/{IMAGE}")
    assert (await made(stack, answer)).image == image
    path = f"/v2.1/servers/{answer.body['server']['id']}"
    shown = (await stack.ask("GET", path, version="2.98")).body["server"]["image"]
    assert shown["id"] == IMAGE
    assert shown["properties"] == {"hw_architecture": "x86_64"}
    assert "properties" not in (await stack.ask("GET", path)).body["server"]["image"]


async def ask(stack: Stack, hints: Json) -> Answer:
    """Request a server with the given fields of hints and return the answer."""
    body = {"server": {"name": "vm", "flavorRef": "small"}, **hints}
    return await stack.ask("POST", "/v2.1/servers", body)


@pytest.mark.parametrize("prefix", ["os:scheduler_hints", "OS-SCH-HNT:scheduler_hints"])
async def test_a_hint_that_is_refused_is_named_as_it_was_sent(stack: Stack, prefix: str) -> None:
    """An error about a hint names the field in which the client sent it."""
    group = {"group": ["one", "two"]}
    answer = await ask(stack, {prefix: group})
    assert reason(answer) == f"{prefix}.group: must be one server group, not 2"
    answer = await ask(stack, {prefix: {"group": "none"}})
    assert reason(answer).startswith(f"{prefix}.group: ")
    # The field that Nova's documentation names takes precedence over the older one.
    answer = await ask(stack, {"OS-SCH-HNT:scheduler_hints": group, "os:scheduler_hints": group})
    assert reason(answer).startswith("os:scheduler_hints.group: ")


def test_a_hint_that_a_rule_cannot_read_is_named_as_it_was_sent() -> None:
    """An error about a hint gets the field that clients send; other errors are unchanged."""
    order = CreateOrder("req-1", "vm", "1", "p", "u")
    asked = Asked(
        order,
        reservation_only=False,
        security_groups=(),
        hint_fields={"query": "OS-SCH-HNT:scheduler_hints.query"},
    )
    error = asked.named_as_sent(InvalidInputError("hints.query", "is not valid JSON"))
    assert str(error) == "OS-SCH-HNT:scheduler_hints.query: is not valid JSON"
    other = InvalidInputError("trait:X", "is wrong")
    assert asked.named_as_sent(other) is other


@pytest.mark.parametrize(
    "values",
    [{"host": "HOST-1"}, {"availability_zone": "nova:Host-1"}, {"host": "host-1"}],
)
async def test_hosts_are_called_in_any_case(stack: Stack, values: Json) -> None:
    """The name of a host is not case-sensitive."""
    uuid = await stack.server(**values)
    found = await stack.ledger.get(Instance, uuid)
    assert found is not None
    assert found.host == "host-1"


@pytest.mark.parametrize("hint", ["same_host", "different_host"])
async def test_hints_do_not_reveal_servers_of_others(stack: Stack, hint: str) -> None:
    """A hint with the server of another project has the effect of one with an unknown server."""
    foreign = await stack.server(token="bob:shop")
    host = (await stack.parts.instances.get(foreign)).host
    unknown = "11111111-2222-4333-8444-555555555555"
    seen: list[object] = []
    for uuid in (foreign, unknown):
        answer = await create(stack, "2.100", "alice:web", {hint: [uuid]}, networks="none")
        path = f"/v2.1/servers/{answer.body['server']['id']}"
        for _ in range(3):
            await create(stack, "2.100", "alice:web", {hint: [uuid]}, networks="none")
        server = (await stack.ask("GET", path, version="2.100", token="alice:web")).body["server"]
        assert server["scheduler_hints"] == {hint: [uuid]}
        fault = server.get("fault", {}).get("message", "")
        seen.append((server["status"], fault.replace(uuid, "")))
    assert seen[0] == seen[1]
    # An administrator sees all servers.
    forced = await create(stack, "2.100", None, {hint: [foreign]}, networks="none")
    placed = await made(stack, forced)
    assert (placed.host == host) is (hint == "same_host")
    own = await stack.server(token="alice:web")
    answer = await create(stack, "2.100", "alice:web", {"same_host": own}, networks="none")
    assert (await made(stack, answer)).host == (await stack.parts.instances.get(own)).host
