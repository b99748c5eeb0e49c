"""Sort orders of lists of servers."""

import pytest

from berth.api.compute.handlers.servers import server_lists
from tests.unit.api.cloud import Stack

_LIST = "/v2.1/servers/detail?all_tenants=1"


async def names(stack: Stack, query: str, version: str = "2.96", token: str | None = None) -> str:
    """Return the names of the listed servers, joined by spaces."""
    path = f"{_LIST}&{query}" if token is None else f"/v2.1/servers?{query}"
    answer = await stack.ask("GET", path, version=version, token=token)
    assert answer.status == 200, answer.body
    return " ".join(server["name"] for server in answer.body["servers"])


@pytest.fixture
async def some(stack: Stack) -> Stack:
    """Return a stack with d of bob, b of eve (failed), c of bob (locked), then a of eve."""
    await stack.flavor("huge", vcpus=64)
    for name, owner in (("d", "bob"), ("b", "eve"), ("c", "bob"), ("a", "eve")):
        flavor = "huge" if name == "b" else "small"
        await stack.server(name=name, token=f"{owner}:{owner}s", flavorRef=flavor)
        stack.clock.seconds += 1
    for server in (await stack.ask("GET", _LIST)).body["servers"]:
        if server["name"] != "c":
            body = {"server": {"description": server["name"]}}
            path = f"/v2.1/servers/{server['id']}"
            answer = await stack.ask("PUT", path, body, version="2.19")
            assert answer.status == 200, answer.body
    (locked,) = (await stack.ask("GET", f"{_LIST}&name=c")).body["servers"]
    await stack.ask("POST", f"/v2.1/servers/{locked['id']}/action", {"lock": None})
    return stack


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", "a c b d"),
        ("sort_dir=asc", "d b c a"),
        ("sort_key=created_at", "a c b d"),
        ("sort_key=created_at&sort_dir=asc", "d b c a"),
        ("sort_key=display_name", "d c b a"),
        ("sort_key=display_name&sort_dir=asc", "a b c d"),
        # A missing value sorts first, and equal ones are sorted by time.
        ("sort_key=display_description&sort_dir=asc", "c a b d"),
        ("sort_key=project_id&sort_dir=asc", "d c b a"),
        ("sort_key=project_id", "a b c d"),
        ("sort_key=project_id&sort_key=display_name&sort_dir=desc&sort_dir=asc", "a b c d"),
        ("sort_key=project_id&sort_key=display_name&sort_dir=asc&sort_dir=desc", "d c b a"),
        ("sort_key=vm_state&sort_key=display_name&sort_dir=desc&sort_dir=asc", "b a c d"),
        ("sort_key=locked&sort_dir=desc", "c a b d"),
        ("sort_key=instance_type_id&sort_dir=asc", "b d c a"),
        ("sort_key=display_name&limit=2", "d c"),
        ("sort_key=display_name&sort_dir=asc&user_id=eve", "a b"),
    ],
)
async def test_orders(some: Stack, query: str, expected: str) -> None:
    """Servers are sorted by one key or several, each with its own direction."""
    assert await names(some, query) == expected


@pytest.mark.parametrize(
    ("query", "version", "said"),
    [
        ("sort_key=name", "2.1", "'name' is unknown; use one of availability_zone"),
        ("sort_key=locked", "2.72", "'locked' is unknown"),
        ("sort_key=uuid&sort_dir=up", "2.1", "must be asc or desc"),
        ("sort_key=uuid&sort_dir=asc&sort_dir=asc", "2.1", "more often than sort_key"),
        ("sort_key=uuid&marker=none", "2.1", "[none] could not be found"),
    ],
)
async def test_what_is_no_order(some: Stack, query: str, version: str, said: str) -> None:
    """An invalid key, direction or marker gets 400 with the reason."""
    answer = await some.ask("GET", f"{_LIST}&{query}", version=version)
    assert answer.status == 400
    assert said in answer.body["badRequest"]["message"]


async def test_hosts_sort_for_administrators_alone(some: Stack) -> None:
    """For other users, the key `host` is ignored, since it would reveal shared hosts."""
    answer = await some.ask("GET", f"{_LIST}&sort_key=host&sort_dir=asc")
    hosts = [server["OS-EXT-SRV-ATTR:host"] or "" for server in answer.body["servers"]]
    assert hosts == sorted(hosts)
    assert len(set(hosts)) > 1
    assert await names(some, "sort_key=host&sort_dir=desc", token="bob:bobs") == "c d"


async def test_a_marker_that_is_filtered_out_has_its_place(some: Stack) -> None:
    """A page may begin after a server that the filter excludes, but not after another project's."""
    (marker,) = (await some.ask("GET", f"{_LIST}&name=b")).body["servers"]
    query = f"sort_key=display_name&sort_dir=asc&marker={marker['id']}"
    assert await names(some, f"{query}&user_id=bob") == "c d"
    answer = await some.ask("GET", f"/v2.1/servers?{query}", token="bob:bobs")
    assert answer.status == 400


async def test_too_many_are_not_sorted(some: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that exceeds the limit is refused, except for orders with an index."""
    monkeypatch.setattr(server_lists, "SORTED_MAX", 3)
    answer = await some.ask("GET", f"{_LIST}&sort_key=uuid")
    assert answer.status == 400
    assert "more than 3 servers" in answer.body["badRequest"]["message"]
    assert await names(some, "sort_key=display_name&user_id=bob") == "d c"
