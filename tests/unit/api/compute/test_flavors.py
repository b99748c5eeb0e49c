"""Flavors in the compute API."""

import pytest

from tests.unit.api.cloud import Json, Stack

NEW = {"name": "m1", "ram": 512, "vcpus": 1, "disk": 1}


async def ids(stack: Stack, query: str = "", token: str | None = None) -> list[str]:
    """Return the ids of the listed flavors."""
    answer = await stack.ask("GET", f"/v2.1/flavors{query}", token=token)
    assert answer.status == 200, answer.body
    return [flavor["id"] for flavor in answer.body["flavors"]]


async def test_a_flavor_is_made(stack: Stack) -> None:
    """Numbers may be given as strings."""
    new = {
        **NEW,
        "id": "7",
        "ram": "512",
        "swap": "64",
        "OS-FLV-EXT-DATA:ephemeral": 2,
        "os-flavor-access:is_public": "False",
        "rxtx_factor": "2.0",
        "description": "small",
    }
    answer = await stack.ask("POST", "/v2.1/flavors", {"flavor": new}, version="2.61")
    assert answer.status == 200
    expected = {
        "id": "7",
        "name": "m1",
        "ram": 512,
        "disk": 1,
        "vcpus": 1,
        "swap": 64,
        "OS-FLV-EXT-DATA:ephemeral": 2,
        "OS-FLV-DISABLED:disabled": False,
        "os-flavor-access:is_public": False,
        "rxtx_factor": 2.0,
        "links": [
            {"rel": "self", "href": "http://berth.test/v2.1/flavors/7"},
            {"rel": "bookmark", "href": "http://berth.test/flavors/7"},
        ],
        "description": "small",
        "extra_specs": {},
    }
    assert answer.body["flavor"] == expected
    shown = await stack.ask("GET", "/v2.1/flavors/7", version="2.61")
    assert shown.body["flavor"] == expected


@pytest.mark.parametrize("values", [{}, {"id": None}, {"id": "auto", "name": "x"}])
async def test_an_id_is_made_up(stack: Stack, values: Json) -> None:
    """Without an id, a uuid is generated; `auto` is an ordinary id."""
    answer = await stack.ask("POST", "/v2.1/flavors", {"flavor": {**NEW, **values}})
    made = answer.body["flavor"]["id"]
    assert made == values.get("id") or len(made) == 36


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"name": ""}, "flavor.name"),
        ({"id": " x"}, "flavor.id"),
        ({"id": "a/b"}, "flavor.id"),
        ({"ram": 0}, "flavor.ram"),
        ({"vcpus": 0}, "flavor.vcpus"),
        ({"vcpus": 2**31}, "flavor.vcpus"),
        ({"disk": -1}, "flavor.disk"),
        ({"rxtx_factor": 0}, "flavor.rxtx_factor"),
        ({"rxtx_factor": "nan"}, "flavor.rxtx_factor"),
        ({"rxtx_factor": "x"}, "flavor.rxtx_factor"),
        ({"description": "x"}, "flavor.description"),
        ({"extra_specs": {}}, "flavor"),
    ],
)
async def test_a_bad_flavor_is_told_its_field(stack: Stack, values: Json, field: str) -> None:
    """The error begins with the path of the field."""
    answer = await stack.ask("POST", "/v2.1/flavors", {"flavor": {**NEW, **values}})
    assert answer.status == 400
    assert answer.body["badRequest"]["message"].startswith(field)


async def test_an_id_or_name_is_taken_once(stack: Stack) -> None:
    """A second flavor with the same id or name gets 409."""
    for values in ({"id": "small"}, {"name": "small"}):
        answer = await stack.ask("POST", "/v2.1/flavors", {"flavor": {**NEW, **values}})
        assert answer.status == 409


async def test_fields_come_with_their_version(stack: Stack) -> None:
    """Each field is shown from its microversion on, and no swap is `""` before 2.75."""
    before = (await stack.ask("GET", "/v2.1/flavors/small", version="2.54")).body["flavor"]
    assert "description" not in before
    assert before["swap"] == ""
    between = (await stack.ask("GET", "/v2.1/flavors/small", version="2.60")).body["flavor"]
    assert between["description"] is None
    assert "extra_specs" not in between
    after = (await stack.ask("GET", "/v2.1/flavors/small", version="2.75")).body["flavor"]
    assert (after["swap"], after["extra_specs"]) == (0, {})


@pytest.fixture
async def some(stack: Stack) -> Stack:
    """Return a stack with a larger and a private flavor besides `small`."""
    await stack.flavor("big", ram=8192, disk=100)
    await stack.flavor("private", **{"os-flavor-access:is_public": False})
    return stack


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["big", "small"]),
        ("?is_public=None", ["big", "private", "small"]),
        ("?is_public=False", ["private"]),
        ("?is_public=True", ["big", "small"]),
        ("?minRam=8192", ["big"]),
        ("?minDisk=21", ["big"]),
        ("?limit=1", ["big"]),
        ("?marker=big", ["small"]),
        ("/detail?minRam=8192", ["big"]),
    ],
)
async def test_filters(some: Stack, query: str, expected: list[str]) -> None:
    """Each filter lists the same flavors as in Nova."""
    assert await ids(some, query) == expected


@pytest.mark.parametrize("query", ["?minRam=x", "?limit=x", "?marker=none", "?is_public=perhaps"])
async def test_bad_queries_are_refused(some: Stack, query: str) -> None:
    """An invalid value or marker gets 400."""
    assert (await some.ask("GET", f"/v2.1/flavors{query}")).status == 400


async def test_a_private_flavor_is_for_administrators(some: Stack) -> None:
    """Other users can see neither a private flavor nor its specs."""
    assert await ids(some, "?is_public=None", token="bob") == ["big", "small"]
    assert (await some.ask("GET", "/v2.1/flavors/private", token="bob")).status == 404
    specs = "/v2.1/flavors/private/os-extra_specs"
    assert (await some.ask("GET", specs, token="bob")).status == 404


async def test_a_page_links_to_the_next(some: Stack) -> None:
    """Each page except the last has a link to the next."""
    first = (await some.ask("GET", "/v2.1/flavors/detail?limit=1&minRam=1")).body
    (link,) = first["flavors_links"]
    assert link == {
        "rel": "next",
        "href": "http://berth.test/v2.1/flavors/detail?minRam=1&limit=1&marker=big",
    }
    last = (await some.ask("GET", "/v2.1/flavors/detail?limit=1&marker=big")).body
    assert "flavors_links" not in last


async def test_a_description_is_changed(stack: Stack) -> None:
    """From 2.55 on, only the description of a flavor can be changed."""
    body = {"flavor": {"description": "tiny"}}
    answer = await stack.ask("PUT", "/v2.1/flavors/small", body, version="2.55")
    assert answer.body["flavor"]["description"] == "tiny"
    assert (await stack.ask("PUT", "/v2.1/flavors/small", body, version="2.54")).status == 404
    bad = {"flavor": {"name": "x"}}
    assert (await stack.ask("PUT", "/v2.1/flavors/small", bad, version="2.55")).status == 400


async def test_a_flavor_is_removed(stack: Stack) -> None:
    """A server keeps the flavor that it was created with."""
    uuid = await stack.server()
    assert (await stack.ask("DELETE", "/v2.1/flavors/small")).status == 202
    assert (await stack.ask("GET", "/v2.1/flavors/small")).status == 404
    server = (await stack.ask("GET", f"/v2.1/servers/{uuid}", version="2.47")).body["server"]
    assert server["flavor"]["original_name"] == "small"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["a", "b", "c"]),
        ("?sort_dir=desc", ["c", "b", "a"]),
        ("?sort_key=vcpus", ["c", "a", "b"]),
        ("?sort_key=vcpus&sort_dir=desc", ["b", "a", "c"]),
        ("?sort_key=name", ["b", "c", "a"]),
        ("?sort_key=description", ["a", "c", "b"]),
        ("?sort_key=vcpus&sort_dir=desc&limit=1&marker=b", ["a"]),
        ("?sort_key=vcpus&sort_dir=desc&marker=b", ["a", "c"]),
    ],
)
async def test_flavors_are_sorted(stack: Stack, query: str, expected: list[str]) -> None:
    """Pages are sorted by the given key, and equal flavors by id."""
    for flavor_id, name, vcpus, description in (
        ("a", "z", 2, None),
        ("b", "x", 2, "words"),
        ("c", "y", 1, None),
    ):
        new = {"id": flavor_id, "name": name, "vcpus": vcpus, "ram": 1, "disk": 0}
        body = {"flavor": {**new, "description": description}}
        assert (await stack.ask("POST", "/v2.1/flavors", body, version="2.55")).status == 200
    assert [one for one in await ids(stack, query) if one != "small"] == expected


@pytest.mark.parametrize("query", ["sort_key=colour", "sort_key=__class__", "sort_dir=up"])
async def test_flavors_cannot_be_sorted_by_anything(stack: Stack, query: str) -> None:
    """An unknown sort key or direction is refused."""
    assert (await stack.ask("GET", f"/v2.1/flavors?{query}")).status == 400
