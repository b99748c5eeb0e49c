"""Aggregates in the compute API."""

import pytest

from tests.unit.api.cloud import Answer, Json, Stack

PATH = "/v2.1/os-aggregates"


async def create(stack: Stack, name: str = "rack", zone: str | None = None) -> Answer:
    """Create an aggregate and return the answer."""
    body = {"aggregate": {"name": name, "availability_zone": zone}}
    return await stack.ask("POST", PATH, body)


async def act(stack: Stack, action: object) -> Answer:
    """Request an action on the first aggregate and return the answer."""
    return await stack.ask("POST", f"{PATH}/1/action", action)


async def test_an_aggregate_is_made(stack: Stack) -> None:
    """The answer to the creation has no hosts and metadata, as in Nova."""
    answer = await create(stack, zone="east")
    assert answer.status == 200
    assert answer.body["aggregate"] == {
        "id": 1,
        "name": "rack",
        "availability_zone": "east",
        "created_at": "2027-01-15T08:00:00.000000",
        "updated_at": None,
        "deleted": False,
        "deleted_at": None,
    }
    shown = (await stack.ask("GET", f"{PATH}/1", version="2.41")).body["aggregate"]
    assert shown["metadata"] == {"availability_zone": "east"}
    assert shown["hosts"] == []
    assert len(shown["uuid"]) == 36
    assert (await stack.ask("GET", PATH)).body["aggregates"][0]["id"] == 1


async def test_hosts_come_and_go(stack: Stack) -> None:
    """Adding an unknown or present host and removing an absent one are errors."""
    await create(stack)
    added = await act(stack, {"add_host": {"host": "host-1"}})
    assert added.status == 200
    assert added.body["aggregate"]["hosts"] == ["host-1"]
    assert (await act(stack, {"add_host": {"host": "host-1"}})).status == 409
    assert (await act(stack, {"add_host": {"host": "host-9"}})).status == 404
    assert (await stack.ask("DELETE", f"{PATH}/1")).status == 400
    removed = await act(stack, {"remove_host": {"host": "host-1"}})
    assert removed.body["aggregate"]["hosts"] == []
    assert (await act(stack, {"remove_host": {"host": "host-1"}})).status == 404
    assert (await stack.ask("DELETE", f"{PATH}/1")).status == 200
    assert (await stack.ask("GET", f"{PATH}/1")).status == 404


async def test_metadata_is_set(stack: Stack) -> None:
    """A null value removes its key."""
    await create(stack)
    await act(stack, {"set_metadata": {"metadata": {"ssd": "true", "x": "y"}}})
    answer = await act(stack, {"set_metadata": {"metadata": {"x": None}}})
    assert answer.body["aggregate"]["metadata"] == {"ssd": "true"}


async def test_an_aggregate_is_renamed(stack: Stack) -> None:
    """Name and zone can be changed, and a conflict changes neither."""
    await create(stack)
    await create(stack, "other")
    change = {"aggregate": {"name": "new", "availability_zone": "west"}}
    changed = (await stack.ask("PUT", f"{PATH}/1", change)).body["aggregate"]
    assert (changed["name"], changed["availability_zone"]) == ("new", "west")
    clash = {"aggregate": {"name": "other", "availability_zone": "north"}}
    assert (await stack.ask("PUT", f"{PATH}/1", clash)).status == 409
    none = {"aggregate": {"availability_zone": None}}
    changed = (await stack.ask("PUT", f"{PATH}/1", none)).body["aggregate"]
    assert (changed["name"], changed["availability_zone"]) == ("new", None)


async def test_a_host_is_in_one_zone(stack: Stack) -> None:
    """Adding a host to a second zone is a conflict."""
    for name in ("east", "west"):
        await create(stack, name, name)
    action = {"add_host": {"host": "host-0"}}
    assert (await stack.ask("POST", f"{PATH}/1/action", action)).status == 200
    assert (await stack.ask("POST", f"{PATH}/2/action", action)).status == 409


async def test_a_name_is_taken_once(stack: Stack) -> None:
    """A second aggregate of the same name gets 409."""
    await create(stack)
    assert (await create(stack)).status == 409


@pytest.mark.parametrize("key", ["rack", "9", "-1", "1.0", "9" * 30, "²"])
async def test_a_name_is_no_id(stack: Stack, key: str) -> None:
    """A path without a valid id gets 404, which clients expect before they search by name."""
    await create(stack)
    assert (await stack.ask("GET", f"{PATH}/{key}")).status == 404


@pytest.mark.parametrize(
    "body",
    [
        {"aggregate": {}},
        {"aggregate": {"name": ""}},
        {"aggregate": {"name": "x", "availability_zone": "a:b"}},
        {"aggregate": {"name": "x", "availability_zone": ""}},
        {"aggregate": {"name": "x", "hosts": []}},
    ],
)
async def test_bad_aggregates_are_refused(stack: Stack, body: Json) -> None:
    """A zone name with a colon is refused, since `zone:host` names a host."""
    assert (await stack.ask("POST", PATH, body)).status == 400


@pytest.mark.parametrize(
    "action",
    [
        {},
        {"add_host": {}},
        {"add_host": {"host": "host-0"}, "remove_host": {"host": "host-0"}},
        {"dance": {}},
        {"set_metadata": {"metadata": {"availability_zone": ""}}},
        {"set_metadata": {"metadata": {"x": 1}}},
    ],
)
async def test_bad_actions_are_refused(stack: Stack, action: Json) -> None:
    """A body must have exactly one known action with valid values."""
    await create(stack)
    assert (await act(stack, action)).status == 400
    assert (await stack.ask("PUT", f"{PATH}/1", {"aggregate": {}})).status == 400


@pytest.mark.parametrize("name", ["  ", " rack", "rack ", "\N{NO-BREAK SPACE}"])
@pytest.mark.parametrize(
    ("path", "noun", "values"),
    [
        (PATH, "aggregate", {}),
        ("/v2.1/flavors", "flavor", {"vcpus": 1, "ram": 1, "disk": 0}),
        ("/v2.1/os-server-groups", "server_group", {"policies": ["affinity"]}),
    ],
)
async def test_names_have_no_white_space_around(
    stack: Stack, path: str, noun: str, values: Json, name: str
) -> None:
    """Names of aggregates, flavors and groups cannot begin or end with white space."""
    answer = await stack.ask("POST", path, {noun: {**values, "name": name}})
    assert answer.status == 400
    assert f"{noun}.name: {name!r} must not begin or end" in answer.body["badRequest"]["message"]


async def test_zones_have_no_white_space_around(stack: Stack) -> None:
    """Zone names are checked on creation and on change."""
    assert (await create(stack, zone="east ")).status == 400
    assert (await create(stack, zone="east")).status == 200
    for change in ({"availability_zone": " east"}, {"name": "rack "}):
        assert (await stack.ask("PUT", f"{PATH}/1", {"aggregate": change})).status == 400
    assert (await stack.ask("PUT", f"{PATH}/1", {"aggregate": {"name": "row"}})).status == 200


ZONE_NAMES = [
    "z,2",
    "a/b",
    "é",
    "x" * 255,
    "a:b",
    "x" * 256,
    " lead",
    "trail ",
    "tab\tx",
    "n\n",
    "",
]


@pytest.mark.parametrize("zone", ZONE_NAMES)
async def test_zone_names_have_the_same_rules_everywhere(stack: Stack, zone: str) -> None:
    """A zone's name is accepted or refused alike in a create, an update and as metadata."""
    await create(stack)
    updated = await stack.ask("PUT", f"{PATH}/1", {"aggregate": {"availability_zone": zone}})
    created = await create(stack, "other", zone)
    set_so = await act(stack, {"set_metadata": {"metadata": {"availability_zone": zone}}})
    expected = 200 if zone in {"z,2", "a/b", "é", "x" * 255} else 400
    assert (updated.status, created.status, set_so.status) == (expected,) * 3


async def test_the_force_header_lets_a_host_leave_a_zone(stack: Stack) -> None:
    """Without it the request gets 409, which names the header."""
    await create(stack, zone="east")
    uuid = await stack.server(token="admin", availability_zone="nova")
    host = (await stack.ask("GET", f"/berth/v1/instances/{uuid}")).body["host"]
    action = {"add_host": {"host": host}}
    refused = await act(stack, action)
    assert refused.status == 409
    assert "X-Berth-Force: true" in refused.body["conflictingRequest"]["message"]
    path, forced = f"{PATH}/1/action", {"x-berth-force": "true"}
    assert (await stack.ask("POST", path, action, headers=forced)).status == 200
    back = {"aggregate": {"availability_zone": None}}
    assert (await stack.ask("PUT", f"{PATH}/1", back)).status == 200
    leave = {"aggregate": {"availability_zone": "west"}}
    assert (await stack.ask("PUT", f"{PATH}/1", leave)).status == 409
    assert (await stack.ask("PUT", f"{PATH}/1", leave, headers=forced)).status == 200
    assert (await stack.ask("POST", path, action, headers={"x-berth-force": "yes!"})).status == 400
