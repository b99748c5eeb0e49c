"""Recorded decisions, and trials of decisions."""

import msgspec

from berth.domain.compute.decision import (
    ZONE_AWARE_DRIVER,
    Decision,
    TriedDecision,
    Verdict,
    ZoneCount,
)
from berth.domain.compute.host import Host
from berth.domain.ledger.write import Put
from tests.unit.api.cloud import Answer, Json, Stack

BODY = {"server": {"name": "vm", "flavorRef": "small"}}
PATH = "/berth/v1/decisions"


async def refused(stack: Stack, token: str | None = None) -> str:
    """Request what no host can fit, and return the request id."""
    body = {"server": {"name": "vm", "flavorRef": "small", "max_count": 100}}
    answer = await stack.ask("POST", "/v2.1/servers", body, token=token)
    return answer.headers["x-openstack-request-id"]


async def decide(stack: Stack, body: Json, token: str | None = None) -> Answer:
    """Try a decision without effect."""
    return await stack.ask("POST", "/berth/v1/decide", body, token=token)


async def test_an_operator_sees_everything(stack: Stack) -> None:
    """An administrator sees the complete record."""
    request_id = await refused(stack)
    answer = await stack.ask("GET", f"{PATH}/{request_id}")
    kept = await stack.ledger.get(Decision, request_id)
    assert msgspec.convert(answer.body, Decision) == kept
    assert any(count["removed_examples"] for count in answer.body["refusal"]["filters"])


async def test_an_owner_sees_the_reason_without_hosts(stack: Stack) -> None:
    """The owner sees the refusal or placement without host names."""
    texts = [
        (await stack.ask("GET", f"{PATH}/{await refused(stack, 'bob')}", token="bob")).body,
        (await decide(stack, BODY, "bob")).body,
    ]
    assert texts[0]["refusal"]["message"]
    assert texts[1]["placements"][0]["candidates"] == 0
    for text in texts:
        for word in ("host-", "node-", "11111111-0000"):
            assert word not in str(text)


async def test_an_owner_does_not_see_which_zones_have_it(stack: Stack) -> None:
    """Only administrators see the zones of a decision."""
    zones = (ZoneCount("west", 2), ZoneCount("root", 1))
    decision = Decision(
        "req-1",
        Verdict.PLACED,
        "",
        "",
        ZONE_AWARE_DRIVER,
        0,
        0,
        0.0,
        0,
        project_id="bob",
        zones=zones,
    )
    await stack.ledger.commit([(Put(decision),)])
    shown = (await stack.ask("GET", f"{PATH}/req-1", token="bob")).body
    kept = (await stack.ask("GET", f"{PATH}/req-1")).body
    assert shown["zones"] == []
    assert kept["zones"] == [{"zone": "west", "instances": 2}, {"zone": "root", "instances": 1}]


async def test_decisions_are_listed(stack: Stack) -> None:
    """Decisions are listed newest first, and each project sees its own."""
    await stack.server(token="bob")
    stack.clock.seconds += 1
    await refused(stack, "eve")

    async def verdicts(query: str, token: str | None = None) -> list[str]:
        answer = await stack.ask("GET", f"{PATH}{query}", token=token)
        return [decision["verdict"] for decision in answer.body["decisions"]]

    assert await verdicts("") == ["refused", "placed"]
    assert await verdicts("?limit=1") == ["refused"]
    assert await verdicts("?verdict=placed&limit=1") == ["placed"]
    assert await verdicts("", "bob") == ["placed"]
    assert (await stack.ask("GET", f"{PATH}?verdict=perhaps")).status == 400


async def test_another_projects_decision_is_not_there(stack: Stack) -> None:
    """Another project's decision is answered with 404."""
    request_id = await refused(stack, "bob")
    assert (await stack.ask("GET", f"{PATH}/{request_id}", token="eve")).status == 404
    assert (await stack.ask("GET", f"{PATH}/req-none")).status == 404


async def test_trying_out_changes_nothing(stack: Stack) -> None:
    """A trial changes neither the ledger nor the holds of the replica."""
    version = await stack.ledger.version()
    answer = await decide(stack, BODY)
    assert answer.status == 200
    assert msgspec.convert(answer.body, Decision).verdict is Verdict.PLACED
    assert await stack.ledger.version() == version
    assert stack.replica.held == 0


async def test_a_trial_is_what_would_be_decided(stack: Stack) -> None:
    """A trial and a create with the same idempotency key have the same placements and seed."""
    key = {"Idempotency-Key": "k"}
    tried = (await stack.ask("POST", "/berth/v1/decide", BODY, headers=key)).body
    made = await stack.ask("POST", "/v2.1/servers", BODY, headers=key)
    server = made.body["server"]["id"]
    real = (await stack.ask("GET", f"{PATH}/{tried['request_id']}")).body
    assert real["placements"] == tried["placements"]
    assert real["placements"][0]["instance_uuid"] == server
    assert real["seed"] == tried["seed"]


async def test_a_trial_tells_who_would_have_won_of_all_hosts(stack: Stack) -> None:
    """Administrators see one counterfactual host for each weigher, and none for a refusal."""
    tried = msgspec.convert((await decide(stack, BODY)).body, TriedDecision)
    (placement,) = tried.placements
    assert [one.weigher for one in tried.counterfactuals] == list(placement.chosen.weighers)
    hosts = {host.name for host in await stack.ledger.all(Host)}
    assert {one.host for one in tried.counterfactuals} <= hosts
    assert "counterfactuals" not in (await decide(stack, BODY, "bob")).body
    many = {"server": {**BODY["server"], "max_count": 100}}
    refusal = (await decide(stack, many)).body
    assert (refusal["verdict"], refusal["counterfactuals"]) == ("refused", [])


async def test_a_trial_sees_what_was_just_changed(stack: Stack) -> None:
    """A trial includes all earlier changes."""
    for host in ("host-0", "host-1", "host-2"):
        body = {"host": host, "binary": "nova-compute"}
        await stack.ask("PUT", "/v2.1/os-services/disable", body)
    server = {**BODY["server"], "description": "x", "networks": "none"}
    answer = await decide(stack, {"server": server})
    assert answer.body["verdict"] == "refused"


async def test_a_bad_request_is_told_its_field(stack: Stack) -> None:
    """The error names the invalid field, as for a create."""
    answer = await decide(stack, {"server": {"name": "vm", "flavorRef": "none"}})
    assert answer.status == 400
    assert answer.body["badRequest"]["message"].startswith("server.flavorRef")
