"""Servers over a tree of zones, created and listed at its root."""

import json
from urllib.parse import parse_qs, urlsplit

import pytest

from berth.api.codec import encode
from berth.api.compute.handlers.servers import tree_lists
from berth.domain.compute.instance import Instance
from berth.domain.compute.request import COUNT_MAX
from berth.domain.zones.zone import RemoteInstance
from berth.ports.zones import STATEMENT_HEADER, ForwardedResponse
from tests.unit.api.cloud import Json
from tests.unit.api.zones.tree import Net, ZoneStack, open_ring

MISSING = "x-berth-zones-missing"


async def make(root: ZoneStack, count: int, *, who: str = "u:p", **values: object) -> str:
    """Create servers in one request and return their reservation id."""
    server = {"name": "vm", "flavorRef": "small", "num_instances": count, **values}
    answer = await root.ask("POST", "/zones/servers", {"server": server}, token=who)
    assert answer.status == 202, answer.body
    assert list(answer.body) == ["reservation_id"]
    reservation: str = answer.body["reservation_id"]
    return reservation


async def listed(zone: ZoneStack, query: str = "", *, who: str = "u:p") -> list[Json]:
    """Return the detailed list of servers."""
    answer = await zone.ask("GET", f"/v2.1/servers/detail?{query}", token=who)
    assert answer.status == 200, answer.body
    found: list[Json] = answer.body["servers"]
    return found


async def own_instances(zone: ZoneStack) -> list[Instance]:
    """Return the instances of a zone's own ledger."""
    uuids = [server["id"] for server in await listed(zone, "all_tenants=1", who="admin")]
    found = [await zone.ledger.get(Instance, uuid) for uuid in uuids]
    return [one for one in found if one is not None]


async def test_one_reservation_finds_all_servers_of_a_request(net: Net, root: ZoneStack) -> None:
    """A reservation lists all its servers, although they are in several zones."""
    reservation = await make(root, 20)
    await make(root, 1)
    found = await listed(root, f"reservation_id={reservation}")
    assert len({server["id"] for server in found}) == 20
    short = await root.ask("GET", f"/v2.1/servers?reservation_id={reservation}", token="u:p")
    assert {one["id"] for one in short.body["servers"]} == {one["id"] for one in found}
    assert MISSING not in short.headers
    for name in ("west", "deep"):
        assert await own_instances(net.zones[name])
    assert len(await listed(root)) == 21


async def test_counts_may_be_asked_for_as_elsewhere(root: ZoneStack) -> None:
    """max_count and /zones/boot work as well; two kinds of counts together are refused."""
    server = {"name": "vm", "flavorRef": "small", "max_count": 3}
    answer = await root.ask("POST", "/zones/boot", {"server": server}, token="u:p")
    assert answer.status == 202, answer.body
    assert len(await listed(root, f"reservation_id={answer.body['reservation_id']}")) == 3
    both = {**server, "num_instances": 2}
    answer = await root.ask("POST", "/zones/servers", {"server": both}, token="u:p")
    assert answer.status == 400
    assert "num_instances" in answer.body["badRequest"]["message"]


@pytest.mark.parametrize("count", [0, COUNT_MAX + 1])
async def test_an_error_names_the_count_as_it_was_sent(root: ZoneStack, count: int) -> None:
    """An error about the number of servers names `num_instances`, not the fields that it sets."""
    server = {"name": "vm", "flavorRef": "small", "num_instances": count}
    answer = await root.ask("POST", "/zones/servers", {"server": server}, token="u:p")
    assert answer.status == 400
    assert answer.body["badRequest"]["message"].startswith("server.num_instances: ")


async def test_a_server_is_made_as_ever(root: ZoneStack) -> None:
    """A server created with POST /servers is found under its id."""
    uuid = await root.server(token="u:p")
    answer = await root.ask("GET", f"/v2.1/servers/{uuid}", token="u:p")
    assert answer.status == 200, answer.body
    assert answer.body["server"]["tenant_id"] == "p"


async def test_any_flavor_may_be_asked_for(root: ZoneStack, far: str) -> None:
    """A flavor whose id has blanks can be used for servers and resizes in children."""
    await root.flavor("my flavor ", name="mine", vcpus=1)
    uuid = await root.server(token="u:p", flavorRef="my flavor ")
    shown = await root.ask("GET", f"/v2.1/servers/{uuid}", token="u:p", version="2.90")
    assert (shown.body["server"]["status"], shown.body["server"]["flavor"]["vcpus"]) == ("BUILD", 1)
    body = {"resize": {"flavorRef": "my flavor "}}
    assert (await root.ask("POST", f"/v2.1/servers/{far}/action", body, token="u:p")).status == 202


async def test_a_repeat_makes_nothing_anew(net: Net, root: ZoneStack) -> None:
    """A repeated idempotency key returns the same server."""
    server = {"server": {"name": "vm", "flavorRef": "small"}}
    ids: set[str] = set()
    for _ in range(2):
        answer = await root.ask(
            "POST", "/v2.1/servers", server, token="u:p", headers={"Idempotency-Key": "k"}
        )
        assert answer.status == 202, answer.body
        ids.add(answer.body["server"]["id"])
    assert len(ids) == 1
    assert [one["id"] for one in await listed(root)] == [*ids]
    assert sum([len(await own_instances(zone)) for zone in net.zones.values()]) == 1


@pytest.mark.parametrize("names", [("east", "west"), ("east", "north", "west")])
async def test_a_list_does_not_go_round_in_a_ring(names: tuple[str, ...]) -> None:
    """In a ring of zones, each zone is asked once on each path."""
    net = await open_ring(*names)
    try:
        made = [(zone, await make(zone, 6)) for zone in net.zones.values()]
        for zone, reservation in made:
            assert await zone.ledger.remote_instances(project_id="p")
            mine = {one["id"] for one in await listed(zone, f"reservation_id={reservation}")}
            assert len(mine) == 6
            net.seen.clear()
            assert mine <= {one["id"] for one in await listed(zone)}
            assert len(net.seen) == {2: 2, 3: 10}[len(names)]
    finally:
        for zone in net.zones.values():
            await zone.ledger.close()


@pytest.mark.parametrize("marks", ["x", "AAAA", ",".join(["A" * 44] * 65)])
async def test_marks_that_are_none_are_refused(net: Net, marks: str) -> None:
    """Invalid loop tokens get 400."""
    west, path = net.zones["west"], "/v2.1/servers"
    headers = {
        STATEMENT_HEADER: west.statement("GET", path),
        "X-Berth-Zone-Marks": marks,
    }
    answer = await west.ask("GET", path, token="root", headers=headers)
    assert answer.status == 400, answer.body


async def test_a_list_has_the_callers_own_alone(root: ZoneStack, west: ZoneStack) -> None:
    """A tenant sees only its own servers, at the root and in children."""
    mine = await make(root, 4)
    await make(root, 4, who="v:q")
    await west.server(token="w:local")
    assert {one["tenant_id"] for one in await listed(root)} == {"p"}
    assert {one["tenant_id"] for one in await listed(root, who="v:q")} == {"q"}
    assert not await listed(root, f"reservation_id={mine}", who="v:q")
    assert not await listed(root, who="w:local")


async def test_links_and_hosts_of_children_are_not_told(net: Net, root: ZoneStack) -> None:
    """Links lead to the root, and no response names or identifies a child's hosts."""
    await make(root, 8)
    answer = await root.ask("GET", "/v2.1/servers/detail", token="u:p", version="2.46")
    text = json.dumps(answer.body)
    for name in ("west", "east", "deep", "host-", "node-", "11111111-"):
        assert name not in text
    for server in answer.body["servers"]:
        assert len(server["hostId"]) == 56
        assert {link["rel"] for link in server["links"]} == {"self", "bookmark"}
        assert all(link["href"].startswith("http://berth.test/") for link in server["links"])
        assert server["flavor"]["links"][0]["href"] == "http://berth.test/flavors/small"
    assert net.seen


async def test_hosts_of_different_zones_have_different_ids(net: Net, root: ZoneStack) -> None:
    """Servers on hosts of the same name in two zones do not seem to share a host.

    The digest is stable, and differs by project.
    """
    ids: dict[str, set[str]] = {}
    for who in ("u:p", "v:q"):
        await make(root, 8, who=who)
        shown = {one["id"]: one["hostId"] for one in await listed(root, who=who)}
        assert shown == {one["id"]: one["hostId"] for one in await listed(root, who=who)}
        ids[who] = set(shown.values())
        places = {
            (name, one.host)
            for name in ("west", "deep")
            for one in await own_instances(net.zones[name])
            if one.uuid in shown
        }
        assert len(ids[who]) == len(places)
        assert len(places) > len({host for _, host in places})
    assert ids["u:p"].isdisjoint(ids["v:q"])


async def test_children_are_asked_only_for_tenants_that_they_have(
    net: Net, root: ZoneStack
) -> None:
    """A list without servers in children, or of all tenants, asks no child."""
    await make(root, 2)
    net.seen.clear()
    assert not await listed(root, who="v:q")
    assert not await listed(root, "all_tenants=1", who="admin")
    assert not await listed(root, "deleted=1", who="admin:p")
    assert not net.seen


async def test_an_administrator_finds_a_reservation_of_any_project(root: ZoneStack) -> None:
    """A reservation in children is found for an administrator."""
    reservation = await make(root, 3)
    found = await listed(root, f"all_tenants=1&reservation_id={reservation}", who="admin")
    assert len(found) == 3
    assert "OS-EXT-SRV-ATTR:host" not in found[0]


async def test_an_administrator_is_told_the_reservation_of_servers_below(root: ZoneStack) -> None:
    """Only administrators see the reservation, from 2.3 on."""
    reservation = await make(root, 20)
    key = "OS-EXT-SRV-ATTR:reservation_id"
    query = f"all_tenants=1&reservation_id={reservation}"
    for version, shown in (("2.2", None), ("2.3", reservation)):
        answer = await root.ask(
            "GET", f"/v2.1/servers/detail?{query}", token="admin", version=version
        )
        listed_there = answer.body["servers"]
        assert len(listed_there) == 20
        assert {one.get(key) for one in listed_there} == {shown}
        for one in listed_there:
            path = f"/v2.1/servers/{one['id']}"
            alone = await root.ask("GET", path, token="admin", version=version)
            assert alone.body["server"].get(key) == shown
            mine = await root.ask("GET", path, token="u:p", version=version)
            assert key not in mine.body["server"]
    short = await root.ask("GET", f"/v2.1/servers?{query}", token="admin", version="2.3")
    assert all(key not in one for one in short.body["servers"])


async def test_pages_go_through_the_whole_tree(root: ZoneStack) -> None:
    """Pages of any size list each server once."""
    await make(root, 20)
    wanted = {one["id"] for one in await listed(root)}
    for limit in (1, 3, 7, 19, 20):
        found = await pages(root, limit)
        assert len(found) == 20
        assert set(found) == wanted


async def pages(root: ZoneStack, limit: int) -> list[str]:
    """Return the ids on all pages of a list."""
    found: list[str] = []
    path = f"/v2.1/servers?limit={limit}"
    while path:
        answer = await root.ask("GET", path, token="u:p")
        assert answer.status == 200, answer.body
        assert MISSING not in answer.headers
        page = answer.body["servers"]
        assert len(page) <= limit
        found += [one["id"] for one in page]
        links = answer.body.get("servers_links", [])
        href: str = links[0]["href"] if links else ""
        path = f"/v2.1/servers?{urlsplit(href).query}" if links else ""
    return found


@pytest.mark.parametrize("limit", [1, 2, 3, 20])
async def test_what_a_child_has_besides_does_not_end_a_list(
    net: Net, root: ZoneStack, limit: int
) -> None:
    """Other servers of the project in a child do not end the list early."""
    await make(root, 4)
    wanted = {one["id"] for one in await listed(root)}
    await net.clock.sleep(1.0)
    for _ in range(3):
        await net.zones["west"].server(token="v:p")
    found = await pages(root, limit)
    assert (len(found), set(found)) == (len(wanted), wanted)


async def test_a_list_reads_on_only_so_far(
    net: Net, root: ZoneStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child with too many other servers is named as missing."""
    await make(root, 4)
    await net.clock.sleep(1.0)
    for _ in range(6):
        await net.zones["west"].server(token="v:p")
    monkeypatch.setattr(tree_lists, "_READ_ON", 1)
    monkeypatch.setattr(tree_lists, "_PAGES_MAX", 5)
    answer = await root.ask("GET", "/v2.1/servers?limit=1", token="u:p")
    assert answer.headers[MISSING] == "some"


@pytest.mark.parametrize("query", ["deleted=False", "deleted=0", "host=host-1"])
async def test_parameters_without_effect_hide_no_zone(root: ZoneStack, query: str) -> None:
    """Filters that have no effect for a tenant do not exclude children."""
    await make(root, 20)
    assert len(await listed(root, query)) == 20


async def test_a_page_of_this_zones_own_asks_nobody(net: Net, west: ZoneStack) -> None:
    """An unknown marker gets 400."""
    del net
    answer = await west.ask("GET", "/v2.1/servers?marker=nothing", token="u:p")
    assert answer.status == 400


async def test_administrators_read_which_child_does_not_answer(net: Net, root: ZoneStack) -> None:
    """The list has the other servers; a header names the missing child to administrators only."""
    reservation = await make(root, 20)
    there = len(await own_instances(net.zones["deep"]))
    net.away.add("west")
    answer = await root.ask("GET", "/v2.1/servers", token="u:p")
    assert answer.status == 200
    assert len(answer.body["servers"]) == there
    assert answer.headers[MISSING] == "some"
    path = f"/v2.1/servers?all_tenants=1&reservation_id={reservation}"
    assert (await root.ask("GET", path)).headers[MISSING] == "west"


async def test_what_is_missing_further_below_is_told(net: Net, root: ZoneStack) -> None:
    """The other servers of a child whose own child is missing are listed, as an incomplete list."""
    await make(root, 20)
    there = len(await own_instances(net.zones["west"]))
    net.away.add("deep")
    answer = await root.ask("GET", "/v2.1/servers", token="u:p")
    assert len(answer.body["servers"]) == there
    assert answer.headers[MISSING] == "some"


async def test_each_zone_keeps_time_for_its_own_answer(net: Net, root: ZoneStack) -> None:
    """Each zone gives its children less time than it has itself."""
    await make(root, 20)
    net.timeouts.clear()
    await listed(root)
    # The first two are from root to west and east; the next is from east to deep.
    assert sorted(net.timeouts, reverse=True)[:2] == [1.6, 1.6]
    assert max(net.timeouts[2:]) <= 1.6 * 0.8


async def test_a_child_cannot_add_servers_to_a_list(net: Net, root: ZoneStack) -> None:
    """Servers that a child was not sent, or of another tenant, are dropped."""
    await make(root, 8)
    await make(root, 8, who="v:q")
    west_own, east_own, theirs = await sorted_out(net)
    said = [
        {"id": west_own, "name": "mine", "tenant_id": "p"},
        {"id": west_own, "name": "twice", "tenant_id": "p"},
        {"id": east_own, "name": "elsewhere", "tenant_id": "p"},
        {"id": theirs, "name": "of another tenant", "tenant_id": "p"},
        {"id": theirs, "name": "of another tenant", "tenant_id": "q"},
        {"id": "00000000-0000-4000-8000-00000000dead", "name": "made up", "tenant_id": "p"},
        {"id": 7},
        "no server",
    ]
    net.lies["west", "GET"] = ForwardedResponse(200, {}, encode({"servers": said}))
    net.away.add("east")
    answer = await root.ask("GET", "/v2.1/servers/detail", token="u:p")
    assert [one["id"] for one in answer.body["servers"]] == [west_own]


async def sorted_out(net: Net) -> tuple[str, str, str]:
    """Return the ids of p's instances in west and in east, and of q's in west."""
    errands = await net.zones["root"].ledger.all(RemoteInstance)
    by = {(one.project_id, one.zone_id): one.instance_uuid for one in errands}
    return by["p", 1], by["p", 2], by["q", 1]


async def test_lists_that_are_none_count_as_no_answer(net: Net, root: ZoneStack) -> None:
    """After an invalid response, the child is named as missing."""
    await make(root, 20)
    deep = b'{"servers": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    for lie in (
        ForwardedResponse(500, {}, b"{}"),
        ForwardedResponse(302, {"location": "http://elsewhere/"}, b""),
        ForwardedResponse(401, {"www-authenticate": "Basic"}, b""),
        ForwardedResponse(200, {}, b"<html>"),
        ForwardedResponse(200, {}, b"[]"),
        ForwardedResponse(200, {}, b"{}"),
        ForwardedResponse(200, {}, b'{"servers": "many"}'),
        ForwardedResponse(200, {}, deep),
        ForwardedResponse(200, {}, b" " * 33 * 1024 * 1024),
        ForwardedResponse(200, {}, b'{"servers": [{"id": "\\u0000"}]}'),
    ):
        net.lies["west", "GET"] = lie
        answer = await root.ask("GET", "/v2.1/servers", token="u:p")
        assert answer.status == 200
        assert answer.headers[MISSING] == "some"
        assert "elsewhere" not in str(answer.headers)


async def test_a_child_cannot_keep_a_list_from_ending(net: Net, root: ZoneStack) -> None:
    """A child with empty pages and links to more does not prolong the list."""
    await make(root, 20)
    more = {"servers": [], "servers_links": [{"rel": "next", "href": "http://west/"}]}
    net.lies["west", "GET"] = ForwardedResponse(200, {}, encode(more))
    answer = await root.ask("GET", "/v2.1/servers", token="u:p")
    assert "servers_links" not in answer.body
    assert answer.body["servers"]


async def test_a_child_cannot_have_a_page_come_again(net: Net, root: ZoneStack) -> None:
    """A child that repeats the server of the marker does not repeat a page."""
    await make(root, 8)
    west_own = next(
        one.instance_uuid for one in await root.ledger.all(RemoteInstance) if one.zone_id == 1
    )
    links = [{"rel": "next", "href": "http://west/"}]
    said = {"servers": [{"id": west_own, "tenant_id": "p"}], "servers_links": links}
    net.lies["west", "GET"] = ForwardedResponse(200, {}, encode(said))
    net.away.add("east")
    first = await root.ask("GET", "/v2.1/servers?limit=1", token="u:p")
    assert [one["id"] for one in first.body["servers"]] == [west_own]
    (link,) = first.body["servers_links"]
    second = await root.ask("GET", link["href"].removeprefix("http://berth.test"), token="u:p")
    assert second.body == {"servers": []}


async def test_filters_go_down_and_rights_do_not(net: Net, root: ZoneStack) -> None:
    """Children get the client's filters, but not all_tenants or the project."""
    await make(root, 20, metadata={"a": "b"})
    net.seen.clear()
    query = "all_tenants=1&project_id=p&name=vm-1&status=BUILD"
    found = await listed(root, query, who="admin")
    assert {one["name"] for one in found} >= {"vm-1", "vm-10"}
    assert "vm-2" not in {one["name"] for one in found}
    for seen in net.seen:
        asked = parse_qs(urlsplit(seen.asked.path).query)
        assert asked.keys() == {"name", "status", "limit"}
        assert seen.project_id == "p"


async def test_members_of_a_group_below_are_members(root: ZoneStack) -> None:
    """Group members in children are shown and count against the quota until deleted."""
    body = {"server_group": {"name": "g", "policies": ["anti-affinity"]}}
    made = await root.ask("POST", "/v2.1/os-server-groups", body, token="u:p")
    group = made.body["server_group"]["id"]
    await root.follower.catch_up()
    server = {"name": "vm", "flavorRef": "small"}
    hints = {"group": group}
    answers = [
        await root.ask(
            "POST", "/v2.1/servers", {"server": server, "os:scheduler_hints": hints}, token="u:p"
        )
        for _ in range(3)
    ]
    uuids = [answer.body["server"]["id"] for answer in answers]
    shown = await root.ask("GET", f"/v2.1/os-server-groups/{group}", token="u:p")
    assert sorted(shown.body["server_group"]["members"]) == sorted(uuids)
    quota = {"quota_set": {"server_group_members": 3}}
    answer = await root.ask("PUT", "/v2.1/os-quota-sets/p", quota)
    assert answer.status == 200, answer.body
    await root.follower.catch_up()
    refused = await root.ask(
        "POST", "/v2.1/servers", {"server": server, "os:scheduler_hints": hints}, token="u:p"
    )
    assert refused.status == 403
    assert "server_group_members" in str(refused.body)
    await root.ask("DELETE", f"/v2.1/servers/{uuids[0]}", token="u:p")
    shown = await root.ask("GET", f"/v2.1/os-server-groups/{group}", token="u:p")
    assert sorted(shown.body["server_group"]["members"]) == sorted(uuids[1:])
