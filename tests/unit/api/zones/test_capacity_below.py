"""Capacity and dry runs over a tree, asked for at the root by tenants and administrators."""

import asyncio

import pytest

from berth.api.codec import encode
from berth.ports.zones import ForwardedResponse
from tests.unit.api.cloud import Answer, Json
from tests.unit.api.zones.tree import Net, ZoneStack

PATH = "/berth/v1/capacity?flavor=small"
PLACES = 24
"""The number of servers that fit in the tree: 8 on each of three hosts."""


async def counted(root: ZoneStack, who: str) -> Json:
    """Return the capacity of the tree."""
    answer = await root.ask("GET", PATH, token=who)
    assert answer.status == 200, answer.body
    body: Json = answer.body
    return body


async def tried(root: ZoneStack, count: int, who: str) -> Answer:
    """Return a dry run of a create."""
    body = {"server": {"name": "vm", "flavorRef": "small", "min_count": count}}
    answer = await root.ask("POST", "/berth/v1/decide", body, token=who)
    assert answer.status == 200, answer.body
    return answer


async def test_the_zones_below_count(root: ZoneStack) -> None:
    """Tenants get one number; administrators also those of the children."""
    assert await counted(root, "u:p") == {"total": PLACES, "is_partial": False}
    assert await counted(root, "admin") == {
        "total": PLACES,
        "is_partial": False,
        "hosts_total": 0,
        "hosts": [],
        "zones": [
            {"zone": "west", "count": 8, "is_partial": False},
            {"zone": "east", "count": 16, "is_partial": False},
        ],
    }


@pytest.mark.parametrize("away", ["west", "deep"])
async def test_a_tenant_learns_only_that_the_answer_is_partial(
    net: Net, root: ZoneStack, away: str
) -> None:
    """Administrators learn which child gave no complete answer."""
    net.away.add(away)
    direct = "west" if away == "west" else "east"
    total = PLACES - (8 if away == "west" else 16)
    assert await counted(root, "u:p") == {"total": total, "is_partial": True}
    zones = (await counted(root, "admin"))["zones"]
    assert [one["zone"] for one in zones if one["is_partial"]] == [direct]
    refused = await tried(root, PLACES, "u:p")
    assert (refused.body["verdict"], refused.body["is_partial"]) == ("refused", True)
    placed = await tried(root, total, "u:p")
    assert (placed.body["verdict"], placed.body["is_partial"]) == ("placed", True)
    for answer in (refused, placed):
        assert not any(name in str(answer.body) for name in ("west", "east", "deep", "host-"))
    known = await tried(root, PLACES, "admin")
    assert "gave no answer" in known.body["refusal"]["message"]
    assert known.body["zones_missing"] == [direct]
    assert "deep" not in str(known.body)


async def test_a_dry_run_accepts_what_a_create_places(root: ZoneStack) -> None:
    """A dry run over several zones stores nothing, and a create then places as many."""
    over = await tried(root, PLACES + 1, "u:p")
    assert (over.body["verdict"], over.body["is_partial"]) == ("refused", False)
    dry = await tried(root, PLACES, "admin")
    assert dry.body["verdict"] == "placed"
    assert sorted((one["zone"], one["instances"]) for one in dry.body["zones"]) == [
        ("east", 16),
        ("west", 8),
    ]
    tenants = await tried(root, PLACES, "u:p")
    assert (tenants.body["verdict"], tenants.body["zones"]) == ("placed", [])
    body = {"server": {"name": "vm", "flavorRef": "small", "min_count": PLACES}}
    created = await root.ask("POST", "/v2.1/servers", body, token="u:p")
    assert created.status == 202, created.body
    assert len(await root.ledger.remote_instances()) == PLACES


@pytest.mark.parametrize(
    "lie",
    [
        ForwardedResponse(404, {}, b"{}"),
        ForwardedResponse(405, {}, b"{}"),
        ForwardedResponse(200, {}, encode({"total": -1})),
        ForwardedResponse(200, {}, encode({"total": 10**18})),
        ForwardedResponse(200, {}, encode({"total": "many"})),
        ForwardedResponse(200, {}, b"[" * 10_000),
    ],
)
async def test_a_child_without_a_valid_answer_is_missing(
    net: Net, root: ZoneStack, lie: ForwardedResponse
) -> None:
    """Children of earlier versions have no such operation; invalid numbers are not added."""
    net.lies["west", "POST"] = lie
    assert await counted(root, "u:p") == {"total": 16, "is_partial": True}
    assert "zone_capacity_failed" in [name for name, *_ in root.told.failures]


async def test_a_project_may_ask_for_two_answers_at_a_time(root: ZoneStack) -> None:
    """Capacity and dry runs count together, and other projects are not affected."""
    limit = root.zone_parts.inquiry_limit
    body = {"server": {"name": "vm", "flavorRef": "small"}}
    with limit.admit("p"):
        await counted(root, "u:p")
        with limit.admit("p"):
            for refused in (
                await root.ask("GET", PATH, token="u:p"),
                await root.ask("POST", "/berth/v1/decide", body, token="u:p"),
            ):
                assert refused.status == 503
                assert "retry-after" in {name.lower() for name in refused.headers}
                assert "in progress" in str(refused.body)
            await counted(root, "u:other")
    answers = await asyncio.gather(*(root.ask("GET", PATH, token="u:p") for _ in range(3)))
    assert sorted(one.status for one in answers) == [200, 200, 503]
    await counted(root, "u:p")


async def test_only_parents_are_told_the_capacity_of_zones(root: ZoneStack, net: Net) -> None:
    """Without an assertion the operation is refused; with one it names nothing."""
    await counted(root, "u:p")
    asked = next(one for one in net.seen if one.asked.path == "/zones/capacity")
    assert (asked.project_id, asked.user_id) == ("p", "u")
    child = net.zones[asked.zone]
    alone = await child.ask("POST", "/zones/capacity", asked.asked.body, token="root")
    assert alone.status == 401
    stated = await child.stated("POST", "/zones/capacity", asked.asked.body)
    assert (stated.status, set(stated.body)) == (200, {"total", "is_partial"})
