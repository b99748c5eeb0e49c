"""Every field that the schemas of servers accept is stored, obeyed, refused or listed.

A field that a client sends and that nothing reads would be lost without a word. The tables below
must name each field of each schema, so that a new field needs a decision.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from berth.api.codec import Model
from berth.api.compute.schemas.server_actions import Evacuate, Migrate, MigrateLive, Rebuild, Resize
from berth.api.compute.schemas.servers import (
    BlockDevice,
    File,
    LegacyBlockDevice,
    Network,
    NewServer,
    SecurityGroup,
    ServerChange,
)
from berth.domain.compute.flavor import Image
from berth.domain.compute.instance import Instance, Status
from berth.domain.ledger.write import Put
from tests.unit.api.cloud import Stack
from tests.unit.api.conftest import MakeStack

ROOT = Path(__file__).parents[4]
IMAGE = "70a599e0-31e7-49b7-b260-868f441e862b"
UUID = "11111111-2222-4333-8444-555555555555"
# A value for each stored field, and the field of the server that shows it, if it is another one.
ADDRESSES: dict[str, tuple[object, str, object]] = {
    "accessIPv4": ("192.0.2.7", "accessIPv4", "192.0.2.7"),
    "accessIPv6": ("2001:DB8::0:7", "accessIPv6", "2001:db8::7"),
    "OS-DCF:diskConfig": ("AUTO", "OS-DCF:diskConfig", "AUTO"),
}
COMMON: dict[str, tuple[object, str, object]] = {
    **ADDRESSES,
    "name": ("other", "name", "other"),
    "description": ("text", "description", "text"),
    "hostname": ("box", "OS-EXT-SRV-ATTR:hostname", "box"),
}
IN_BOTH: dict[str, tuple[object, str, object]] = {
    **COMMON,
    "metadata": ({"a": "b"}, "metadata", {"a": "b"}),
    "trusted_image_certificates": (["c1"], "trusted_image_certificates", ["c1"]),
    "user_data": ("YQ==", "OS-EXT-SRV-ATTR:user_data", "YQ=="),
}
STORED: dict[type[Model], dict[str, tuple[object, str, object]]] = {
    NewServer: {
        **IN_BOTH,
        "tags": (["t"], "tags", ["t"]),
        "config_drive": (True, "config_drive", "True"),
        "security_groups": ([{"name": "web"}], "security_groups", [{"name": "web"}]),
        "availability_zone": ("nova", "pinned_availability_zone", "nova"),
        "host": ("host-1", "OS-EXT-SRV-ATTR:host", "host-1"),
        "hypervisor_hostname": ("node-2", "OS-EXT-SRV-ATTR:hypervisor_hostname", "node-2"),
    },
    ServerChange: COMMON,
    Rebuild: IN_BOTH,
    Resize: {"OS-DCF:diskConfig": ADDRESSES["OS-DCF:diskConfig"]},
}
# Fields that other tests cover, because their effect is not a field of the server.
OBEYED: dict[type[Model], set[str]] = {
    NewServer: {
        "flavorRef",
        "imageRef",
        "key_name",
        "min_count",
        "max_count",
        "return_reservation_id",
        "networks",
        "block_device_mapping",
        "block_device_mapping_v2",
        "personality",
    },
    Rebuild: {"imageRef", "key_name", "personality"},
    Resize: {"flavorRef"},
    ServerChange: {"pinned_availability_zone"},
    Migrate: {"host"},
    MigrateLive: {"host", "force"},
    Evacuate: {"host", "force"},
    BlockDevice: {"uuid", "image_id", "boot_index", "source_type"},
    SecurityGroup: {"name"},
    # The tests of orders and rebuilds show that files are stored.
    File: {"path", "contents"},
}
REFUSED: dict[type[Model], dict[str, object]] = {
    Network: {"uuid": UUID, "port": UUID, "fixed_ip": "192.0.2.1"},
    LegacyBlockDevice: {"volume_id": UUID, "snapshot_id": UUID},
    BlockDevice: {"volume_id": UUID, "snapshot_id": UUID, "destination_type": "volume"},
}
# Fields that `docs/reference/differences-from-nova.md` lists as having no effect.
LISTED: dict[type[Model], set[str]] = {
    NewServer: {"adminPass"},
    Rebuild: {"adminPass", "preserve_ephemeral"},
    Evacuate: {"adminPass", "onSharedStorage"},
    MigrateLive: {"block_migration", "disk_over_commit"},
    Network: {"tag"},
    LegacyBlockDevice: {
        "virtual_name",
        "volume_size",
        "device_name",
        "delete_on_termination",
        "no_device",
        "connection_info",
    },
    BlockDevice: {
        "virtual_name",
        "volume_size",
        "device_name",
        "delete_on_termination",
        "no_device",
        "connection_info",
        "guest_format",
        "device_type",
        "disk_bus",
        "tag",
        "volume_type",
    },
}
SCHEMAS = [*{**STORED, **OBEYED, **REFUSED, **LISTED}]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_field_is_accounted_for(schema: type[Model]) -> None:
    """A schema has exactly the fields that the tables name, each once."""
    named = [
        *STORED.get(schema, {}),
        *OBEYED.get(schema, ()),
        *REFUSED.get(schema, {}),
        *LISTED.get(schema, ()),
    ]
    fields = [field.encode_name for field in msgspec.structs.fields(schema)]
    assert sorted(named) == sorted(fields)


def test_fields_without_effect_are_listed() -> None:
    """The document names each field that has no effect."""
    text = (ROOT / "docs/reference/differences-from-nova.md").read_text()
    section = text.partition("### Fields without effect\n")[2].partition("\n## ")[0]
    assert section
    for fields in LISTED.values():
        for field in fields:
            assert f"`{field}`" in section, field


async def shown(stack: Stack, uuid: str) -> dict[str, Any]:
    """Return a server as an administrator sees it."""
    answer = await stack.ask("GET", f"/v2.1/servers/{uuid}", version="2.96")
    server: dict[str, Any] = answer.body["server"]
    return server


async def active(stack: Stack) -> str:
    """Create a server that is active, and return its uuid."""
    uuid = await stack.server()
    await stack.activate(uuid)
    return uuid


@pytest.mark.parametrize("field", STORED[NewServer])
async def test_a_create_stores_the_field(stack: Stack, field: str) -> None:
    """The new server has the value."""
    value, place, expected = STORED[NewServer][field]
    body = {"name": "vm", "flavorRef": "small", "networks": "none", field: value}
    answer = await stack.ask("POST", "/v2.1/servers", {"server": body}, version="2.96")
    assert answer.status == 202, answer.body
    server = await shown(stack, answer.body["server"]["id"])
    assert server[place] == expected
    if field == "OS-DCF:diskConfig":
        assert answer.body["server"][field] == expected


@pytest.mark.parametrize("field", COMMON)
async def test_an_update_stores_the_field(stack: Stack, field: str) -> None:
    """The changed server has the value, in the response and afterwards."""
    value, place, expected = COMMON[field]
    uuid = await stack.server()
    body = {"server": {field: value}}
    answer = await stack.ask("PUT", f"/v2.1/servers/{uuid}", body, version="2.96")
    assert answer.status == 200, answer.body
    assert answer.body["server"][place] == expected
    assert (await shown(stack, uuid))[place] == expected


@pytest.mark.parametrize("field", IN_BOTH)
async def test_a_rebuild_stores_the_field(stack: Stack, field: str) -> None:
    """The rebuilt server has the value, in the response and afterwards."""
    value, place, expected = IN_BOTH[field]
    uuid = await active(stack)
    body = {"rebuild": {"imageRef": IMAGE, field: value}}
    answer = await stack.ask("POST", f"/v2.1/servers/{uuid}/action", body, version="2.96")
    assert answer.status == 202, answer.body
    told = "user_data" if field == "user_data" else place
    assert answer.body["server"][told] == expected
    assert (await shown(stack, uuid))[place] == expected


async def test_a_resize_stores_the_disk_configuration(stack: Stack) -> None:
    """A resize or migration that names no value resets it, as in Nova."""
    await stack.flavor("large", vcpus=4)
    uuid = await active(stack)
    path = f"/v2.1/servers/{uuid}/action"
    body = {"resize": {"flavorRef": "large", "OS-DCF:diskConfig": "AUTO"}}
    assert (await stack.ask("POST", path, body)).status == 202
    assert (await shown(stack, uuid))["OS-DCF:diskConfig"] == "AUTO"
    for action in ({"resize": {"flavorRef": "large"}}, {"migrate": None}):
        instance = await stack.ledger.get(Instance, uuid)
        assert instance is not None
        extra = {"disk_config": "AUTO"}
        idle = replace(instance, status=Status.ACTIVE, task=None, extra=extra)
        await stack.ledger.commit([(Put(idle),)])
        assert (await stack.ask("POST", path, action)).status == 202
        assert (await shown(stack, uuid))["OS-DCF:diskConfig"] == "MANUAL"


@pytest.mark.parametrize(
    ("schema", "field"), [(schema, field) for schema in REFUSED for field in REFUSED[schema]]
)
async def test_other_fields_are_refused(stack: Stack, schema: type[Model], field: str) -> None:
    """A value that Berth cannot honour is refused, and the message names the field."""
    value = {field: REFUSED[schema][field]}
    version = "2.36"
    inside: dict[type[Model], str] = {
        Network: "networks",
        LegacyBlockDevice: "block_device_mapping",
        BlockDevice: "block_device_mapping_v2",
    }
    body = {"server": {"name": "vm", "flavorRef": "small", inside[schema]: [value]}}
    answer = await stack.ask("POST", "/v2.1/servers", body, version=version)
    assert answer.status == 400, answer.body
    assert inside[schema] in answer.body["badRequest"]["message"]


async def test_an_update_removes_addresses(stack: Stack) -> None:
    """An empty address replaces the one that the server has."""
    uuid = await stack.server(accessIPv4="192.0.2.7", accessIPv6="2001:db8::7")
    body = {"server": {"accessIPv4": "", "accessIPv6": ""}}
    answer = await stack.ask("PUT", f"/v2.1/servers/{uuid}", body)
    assert (answer.body["server"]["accessIPv4"], answer.body["server"]["accessIPv6"]) == ("", "")


@pytest.mark.parametrize(
    ("prop", "asked", "expected"),
    [
        ("true", None, "AUTO"),
        ("false", None, "MANUAL"),
        ("Disabled", None, "MANUAL"),
        ("Disabled", "MANUAL", "MANUAL"),
        ("true", "MANUAL", "MANUAL"),
        ("Disabled", "AUTO", None),
    ],
)
async def test_images_say_how_disks_are_partitioned(
    make_stack: MakeStack, prop: str, asked: str | None, expected: str | None
) -> None:
    """The image's property is the default, and can disable AUTO."""
    stack = await make_stack(images={IMAGE: Image(IMAGE, properties={"auto_disk_config": prop})})
    await stack.flavor()
    body: dict[str, object] = {"name": "vm", "flavorRef": "small", "imageRef": IMAGE}
    if asked is not None:
        body["OS-DCF:diskConfig"] = asked
    answer = await stack.ask("POST", "/v2.1/servers", {"server": body})
    if expected is None:
        assert answer.status == 400
        uuid = await active(stack)
        change = {"server": {"OS-DCF:diskConfig": "AUTO"}}
        assert (await stack.ask("PUT", f"/v2.1/servers/{uuid}", change)).status == 200
        return
    assert answer.body["server"]["OS-DCF:diskConfig"] == expected


@pytest.mark.parametrize("version", ["2.1", "2.104"])
async def test_a_create_returns_the_password(stack: Stack, version: str) -> None:
    """The response has the password of the request, or a new one; the setting removes it."""
    body = {"name": "vm", "flavorRef": "small", "networks": "none"}
    if version == "2.1":
        del body["networks"]

    async def told(**more: str) -> str | None:
        answer = await stack.ask(
            "POST", "/v2.1/servers", {"server": {**body, **more}}, version=version
        )
        password: str | None = answer.body["server"].get("adminPass")
        return password

    assert await told(adminPass="word") == "word"
    first, second = await told(), await told()
    assert first is not None
    assert second not in {first, None}
    # A repeated request gets the same response.
    answers = [
        await stack.ask(
            "POST",
            "/v2.1/servers",
            {"server": body},
            version=version,
            headers={"Idempotency-Key": "k"},
        )
        for _ in range(2)
    ]
    assert answers[0].body == answers[1].body
    stack.parts = replace(stack.parts, new_password=None)
    stack._app = None
    assert await told(adminPass="word") is None
