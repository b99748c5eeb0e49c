"""Records of child zones, and the information that a zone gives about itself."""

import pytest

from berth.domain.zones.zone import Zone
from tests.unit.api.cloud import Json, Stack
from tests.unit.api.conftest import MakeStack
from tests.unit.api.zones.tree import Net, ZoneStack

NORTH: Json = {
    "name": "north",
    "api_url": "https://north.test/berth/",
    "username": "root",
    "password": "s3cret-p4ss",
    "weight_offset": -1.5,
    "weight_scale": 2,
}


async def test_a_zone_is_kept_shown_and_forgotten(root: ZoneStack) -> None:
    """A child is added, shown, changed and removed, without showing its password."""
    answer = await root.ask("POST", "/zones", {"zone": NORTH})
    assert answer.status == 201, answer.body
    made = answer.body["zone"]
    path = f"/zones/{made['id']}"
    wanted = {
        "name": "north",
        "api_url": "https://north.test/berth",
        "username": "root",
        "has_password": True,
        "weight_offset": -1.5,
        "weight_scale": 2.0,
        "is_enabled": True,
        "is_active": True,
    }
    assert wanted.items() <= made.items()
    change = {"weight_scale": 3.0, "is_enabled": False, "password": ""}
    answer = await root.ask("PUT", path, {"zone": change})
    assert answer.status == 200, answer.body
    changed = (await root.ask("GET", path)).body["zone"]
    assert (changed["weight_scale"], changed["weight_offset"]) == (3.0, -1.5)
    assert (changed["is_enabled"], changed["is_active"]) == (False, False)
    assert not changed["has_password"]
    assert (await root.ask("DELETE", path)).status == 204
    assert (await root.ask("GET", path)).status == 404


async def test_no_answer_has_a_password(root: ZoneStack) -> None:
    """Neither the password nor its sealed form is in any response or error."""
    made = (await root.ask("POST", "/zones", {"zone": NORTH})).body["zone"]
    stored = await root.ledger.get(Zone, str(made["id"]))
    assert stored is not None
    assert root.zones.password(stored) == "s3cret-p4ss"
    answers = [
        await root.ask("GET", path) for path in ("/zones", "/zones/detail", f"/zones/{made['id']}")
    ]
    answers += [
        await root.ask("POST", "/zones", {"zone": NORTH}),
        await root.ask("POST", "/zones", {"zone": {**NORTH, "name": "UPPER"}}),
        await root.ask("PUT", f"/zones/{made['id']}", {"zone": {**NORTH, "id": 7}}),
        await root.ask("GET", "/berth/v1/state"),
    ]
    assert [answer.status for answer in answers[3:6]] == [409, 400, 400]
    for answer in answers:
        assert "s3cret" not in str(answer.body)
        assert stored.sealed_password not in str(answer.body)


async def test_lists_are_short_and_in_full(net: Net, root: ZoneStack) -> None:
    """The detailed list has failures and the time of the last contact."""
    answer = await root.ask("GET", "/zones")
    assert answer.body["zones"] == [
        {
            "id": number,
            "name": name,
            "api_url": f"http://{name}.test:8774",
            "is_enabled": True,
            "is_active": True,
        }
        for number, name in ((1, "west"), (2, "east"))
    ]
    full = (await root.ask("GET", "/zones/detail")).body["zones"]
    assert [(one["name"], one["failures"], one["seen_at"]) for one in full] == [
        ("west", 0, None),
        ("east", 0, None),
    ]
    assert all("password" not in one for one in full)
    del net


async def test_zones_are_for_administrators(root: ZoneStack) -> None:
    """Other users can neither see nor change zones, except for /zones/info."""
    for method, path in (
        ("GET", "/zones"),
        ("GET", "/zones/detail"),
        ("GET", "/zones/1"),
        ("PUT", "/zones/1"),
        ("DELETE", "/zones/1"),
        ("POST", "/zones"),
    ):
        body = {"zone": NORTH} if method in {"POST", "PUT"} else None
        answer = await root.ask(method, path, body, token="u:p")
        assert answer.status == 403
    assert (await root.ask("GET", "/zones/info", token="u:p")).status == 200


async def test_a_zone_tells_of_itself_what_it_may(west: ZoneStack) -> None:
    """The response has the name, the capabilities and the permitted ranges."""
    answer = await west.ask("GET", "/zones/info", token="u:p")
    assert answer.status == 200
    zone = answer.body["zone"]
    assert (zone["name"], zone["capabilities"]) == ("west", {"hypervisor": ["kvm"]})
    assert set(zone["ranges"]) <= {"free.VCPU"}


async def test_a_parent_asks_for_it_by_a_statement(net: Net, root: ZoneStack) -> None:
    """A parent reads /zones/info with its own client."""
    children = root.watch
    (west, *_) = children.active()
    info = await root.house.near.info(west, timeout_s=1.0)
    assert info.name == "west"
    assert net.seen[-1].asked.path == "/zones/info"


@pytest.mark.parametrize(
    "values",
    [
        {"api_url": "ftp://x"},
        {"api_url": "http://u:p@x/"},
        {"api_url": "http://x/?a=b"},
        {"api_url": "no url"},
        {"name": "root"},
        {"name": "a/b"},
        {"name": ""},
        {"weight_scale": 0},
        {"weight_scale": -1},
        {"weight_offset": 1e300},
        {"password": "p" * 1025},
        {"is_enabled": "yes"},
        {"sealed_password": "x"},
    ],
)
async def test_what_could_not_be_asked_is_refused(root: ZoneStack, values: Json) -> None:
    """An invalid record gets 400 with the name of the field."""
    answer = await root.ask("POST", "/zones", {"zone": {**NORTH, **values}})
    assert answer.status == 400
    assert next(iter(values)) in answer.body["badRequest"]["message"]


async def test_numbers_that_are_none_lead_nowhere(root: ZoneStack) -> None:
    """A key that is not the id of a zone gets 404."""
    for key in ("x", "-1", "1.0", "9" * 30, "²", "99", "1%2F..", "%2e%2e"):
        assert (await root.ask("GET", f"/zones/{key}")).status == 404
        assert (await root.ask("DELETE", f"/zones/{key}")).status == 404
    assert (await root.ask("GET", "/zones/1")).status == 200


async def test_where_no_zone_is_that_is_said(make_stack: MakeStack) -> None:
    """Without `zones.name`, each zone route and any assertion gets 501."""
    stack: Stack = await make_stack()
    server = {"name": "vm", "flavorRef": "small"}
    cases: tuple[tuple[str, str, Json | None], ...] = (
        ("GET", "/zones", None),
        ("GET", "/zones/detail", None),
        ("GET", "/zones/info", None),
        ("GET", "/zones/1", None),
        ("DELETE", "/zones/1", None),
        ("POST", "/zones", {"zone": NORTH}),
        ("PUT", "/zones/1", {"zone": {}}),
        ("POST", "/zones/select", {}),
        ("POST", "/zones/release", {}),
        ("POST", "/zones/servers", {"server": server}),
        ("POST", "/zones/boot", {"server": server}),
    )
    for method, path, body in cases:
        answer = await stack.ask(method, path, body)
        assert answer.status == 501, path
        assert "zones.name" in answer.body["notImplemented"]["message"]
    headers = {"X-Berth-Zone-Statement": "x"}
    assert (await stack.ask("GET", "/v2.1/servers", headers=headers)).status == 501
    assert (await stack.ask("GET", "/v2.1/servers")).status == 200
