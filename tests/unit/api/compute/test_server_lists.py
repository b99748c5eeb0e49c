"""Lists of servers in the compute API."""

from urllib.parse import urlsplit

import pytest

from berth.api.limits import RequestLimits
from tests.unit.api.cloud import Answer, Stack
from tests.unit.api.conftest import MakeStack


async def ask(stack: Stack, query: str, token: str | None = None) -> Answer:
    """Request a list of servers and return the answer."""
    return await stack.ask("GET", f"/v2.1/servers?{query}", token=token)


async def names(stack: Stack, query: str = "", token: str | None = None) -> list[str]:
    """Return the names of the listed servers."""
    answer = await ask(stack, query, token)
    assert answer.status == 200, answer.body
    return [server["name"] for server in answer.body["servers"]]


@pytest.fixture
async def some(stack: Stack) -> Stack:
    """Return a stack with the servers a1, a2 and b of bob, and c of eve, from oldest to newest."""
    await stack.flavor("huge", vcpus=64)
    for name, owner in (("a1", "bob"), ("a2", "bob"), ("b", "bob"), ("c", "eve")):
        flavor = "huge" if name == "b" else "small"
        await stack.server(name=name, token=f"{owner}:{owner}s", flavorRef=flavor)
        stack.clock.seconds += 1
    return stack


async def test_a_project_sees_its_own(some: Stack) -> None:
    """The list has the project's own servers, newest first."""
    assert await names(some, token="bob:bobs") == ["b", "a2", "a1"]
    assert await names(some, token="eve:eves") == ["c"]
    assert await names(some) == []


async def test_administrators_see_all_on_demand(some: Stack) -> None:
    """Only administrators can list the servers of all projects or of another."""
    assert await names(some, "all_tenants=1") == ["c", "b", "a2", "a1"]
    assert await names(some, "all_tenants=True&project_id=eves") == ["c"]
    assert await names(some, "all_tenants&tenant_id=eves") == ["c"]
    assert await names(some, "all_tenants=0") == []
    assert (await ask(some, "all_tenants=1", "bob:bobs")).status == 403
    assert (await ask(some, "all_tenants=perhaps")).status == 400


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("name=a", ["a2", "a1"]),
        ("name=^a1$", ["a1"]),
        ("status=ERROR", ["b"]),
        ("status=error&status=BUILD", ["c", "b", "a2", "a1"]),
        ("status=RESIZE", []),
        ("flavor=huge", ["b"]),
        ("image=none", []),
        ("user_id=eve", ["c"]),
        ("host=host-9", []),
        ("reservation_id=r-none", []),
        ("deleted=False", ["c", "b", "a2", "a1"]),
        ("deleted=True", []),
        ("changes-since=2027-01-15T08:00:02Z", ["c", "b"]),
        ("sort_key=display_name&sort_dir=asc&name=a", ["a1", "a2"]),
        ("unknown=1", ["c", "b", "a2", "a1"]),
        ("vm_state=error", ["b"]),
        ("vm_state=building", ["c", "a2", "a1"]),
        ("task_state=deleting", []),
        ("power_state=1", []),
        ("power_state=0", ["c", "b", "a2", "a1"]),
        ("availability_zone=nowhere", []),
        ("key_name=mine", []),
        ("uuid=none", []),
        ("limit=0", []),
    ],
)
async def test_filters(some: Stack, query: str, expected: list[str]) -> None:
    """A known filter selects the matching servers, and an unknown one is ignored."""
    assert await names(some, f"all_tenants=1&{query}") == expected


async def test_later_versions_know_more_and_refuse_the_rest(some: Stack) -> None:
    """Later microversions have more filters and refuse unknown ones."""
    (locked,) = (await ask(some, "all_tenants=1&name=b")).body["servers"]
    await some.ask("POST", f"/v2.1/servers/{locked['id']}/action", {"lock": None})

    async def found(query: str, version: str = "2.96") -> list[str]:
        path = f"/v2.1/servers?all_tenants=1&{query}"
        answer = await some.ask("GET", path, version=version)
        assert answer.status == 200, answer.body
        return [server["name"] for server in answer.body["servers"]]

    assert await found("locked=true") == ["b"]
    assert await found("locked=false") == ["c", "a2", "a1"]
    assert len(await found("locked=true", "2.1")) == 4
    assert await found("changes-before=2027-01-15T08:00:01Z") == ["a2", "a1"]
    for query, version in (("unknown=1", "2.75"), ("ip=1", "2.1"), ("created_at=1", "2.96")):
        answer = await some.ask("GET", f"/v2.1/servers/detail?{query}", version=version)
        assert answer.status == 400, answer.body


async def test_the_host_filter_finds_those_on_it(some: Stack) -> None:
    """Administrators can filter by host; for others, the filter is ignored."""
    on_hosts = [
        name for i in range(3) for name in await names(some, f"all_tenants=1&host=host-{i}")
    ]
    assert sorted(on_hosts) == ["a1", "a2", "c"]
    assert await names(some, "host=nowhere", "eve:eves") == ["c"]


async def test_deleted_ones_are_for_administrators(some: Stack) -> None:
    """Only administrators can list deleted servers; changes-since includes them."""
    found = (await ask(some, "all_tenants=1&name=b")).body["servers"]
    await some.ask("DELETE", f"/v2.1/servers/{found[0]['id']}")
    assert await names(some, "all_tenants=1&deleted=1") == ["b"]
    assert await names(some, "all_tenants=1&status=DELETED") == ["b"]
    assert await names(some, "all_tenants=1&status=DELETED&status=BUILD") == ["c", "b", "a2", "a1"]
    assert await names(some, "all_tenants=1") == ["c", "a2", "a1"]
    assert "b" in await names(some, "all_tenants=1&changes-since=2027-01-01")
    assert (await ask(some, "deleted=1", "bob:bobs")).status == 403
    assert (await ask(some, "status=DELETED", "bob:bobs")).status == 403
    assert (await ask(some, "deleted=False", "bob:bobs")).status == 200


@pytest.mark.parametrize(
    "query",
    [
        "name=a",
        "",
        "status=BUILD&status=ERROR",
        "user_id=bob",
        "sort_key=display_name&sort_dir=asc",
        "sort_key=project_id&sort_key=display_name&sort_dir=desc&sort_dir=asc",
        "sort_dir=asc",
        "sort_key=task_state&name=a",
    ],
)
@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_pages_join_to_the_whole(some: Stack, query: str, limit: int) -> None:
    """The links of the pages lead to every server once, whatever the filter and order."""
    whole = await names(some, f"all_tenants=1&{query}")
    read: list[str] = []
    path = f"/v2.1/servers/detail?all_tenants=1&{query}&limit={limit}"
    while path:
        page = (await some.ask("GET", path)).body
        assert len(page["servers"]) <= limit
        read += [server["name"] for server in page["servers"]]
        (link,) = page.get("servers_links", [{"href": ""}])
        parts = urlsplit(link["href"])
        path = f"{parts.path}?{parts.query}" if link["href"] else ""
    assert read == whole


async def test_the_longest_page_is_bounded(make_stack: MakeStack) -> None:
    """A page has at most `list_max` servers, and a link to the rest."""
    stack = await make_stack(limits=RequestLimits(list_max=2))
    await stack.flavor()
    for index in range(3):
        await stack.server(name=str(index))
    for query in ("", "limit=100"):
        page = (await ask(stack, query)).body
        assert len(page["servers"]) == 2
        assert page["servers_links"][0]["rel"] == "next"


@pytest.mark.parametrize(
    "query", ["marker=none", "limit=x", "limit=-1", "changes-since=now", "sort_dir=up"]
)
async def test_bad_queries_are_refused(some: Stack, query: str) -> None:
    """An unknown marker or invalid value gets 400."""
    assert (await ask(some, query)).status == 400


async def test_a_marker_is_one_of_the_own_servers(some: Stack) -> None:
    """Another project's server as a marker is refused like an unknown one."""
    (other,) = (await ask(some, "", "eve:eves")).body["servers"]
    refused = await ask(some, f"marker={other['id']}", "bob:bobs")
    assert refused.status == 400
    assert "could not be found" in refused.body["badRequest"]["message"]
    assert await names(some, f"marker={other['id']}", "eve:eves") == []
    assert await names(some, f"all_tenants=1&marker={other['id']}") == ["b", "a2", "a1"]


@pytest.mark.parametrize(
    ("query", "version", "status"),
    [
        ("status=nosuch", "2.37", 200),
        ("status=nosuch", "2.38", 400),
        ("status=nosuch&status=ACTIVE", "2.38", 200),
        ("status=RESCUE", "2.38", 200),
        ("status=rebuild", "2.38", 200),
        ("status=", "2.38", 400),
    ],
)
async def test_unknown_statuses(stack: Stack, query: str, version: str, status: int) -> None:
    """A status that no server can have is refused from 2.38 on; before, no server has it."""
    await stack.server()
    for path in ("/v2.1/servers", "/v2.1/servers/detail"):
        answer = await stack.ask("GET", f"{path}?{query}", version=version)
        assert answer.status == status
        if status == 200:
            assert answer.body == {"servers": []}


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("%5Eweb-%5B0-9%5D%2B%24", ["web-12"]),
        ("web", ["web-12", "web-x"]),
        ("%5E(db%7Cweb)-x%24", ["db-x", "web-x"]),
        ("%5B", None),
        ("(%3F%3Dx)", None),
    ],
)
async def test_names_are_regular_expressions(
    stack: Stack, pattern: str, names: list[str] | None
) -> None:
    """The filter by name is a regular expression; one that cannot be used is refused."""
    for name in ("web-12", "web-x", "db-x"):
        await stack.server(name=name)
    answer = await stack.ask("GET", f"/v2.1/servers?name={pattern}")
    if names is None:
        assert answer.status == 400
        assert answer.body["badRequest"]["message"].startswith("name: ")
    else:
        assert sorted(server["name"] for server in answer.body["servers"]) == names
