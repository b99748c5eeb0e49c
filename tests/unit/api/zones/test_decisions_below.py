"""Decisions about servers in child zones, asked for at the root."""

from dataclasses import replace

from berth.api.codec import encode
from berth.domain.compute.decision import Decision, Verdict
from berth.domain.compute.instance import Instance
from berth.domain.ledger.write import Put
from berth.domain.zones.zone import RemoteInstance
from berth.ports.zones import ForwardedResponse
from berth.testing.builders import make_decision
from tests.unit.api.cloud import Answer
from tests.unit.api.zones.tree import Net, ZoneStack

PATH = "/berth/v1/decisions"
ASKED = "req-00000000-0000-4000-8000-00000000aaaa"


async def explained(zone: ZoneStack, key: str, *, who: str = "u:p", query: str = "") -> Answer:
    """Ask a zone for a decision."""
    return await zone.ask("GET", f"{PATH}/{key}{query}", token=who)


async def test_every_server_of_a_tree_is_explained_by_its_uuid(net: Net, root: ZoneStack) -> None:
    """The record of the zone that chose the host is shown, without its hosts and its policy."""
    body = {"server": {"name": "vm", "flavorRef": "small", "min_count": 20}}
    created = await root.ask("POST", "/v2.1/servers", body, token="u:p")
    assert created.status == 202, created.body
    remotes = await root.ledger.remote_instances()
    assert len({one.zone_id for one in remotes}) == 2
    for one in remotes:
        for who in ("u:p", "admin"):
            answer = await explained(root, one.instance_uuid, who=who)
            assert answer.status == 200, answer.body
            (placement,) = answer.body["placements"]
            assert placement["instance_uuid"] == one.instance_uuid
            assert (placement["host"], answer.body["policy_name"]) == ("", "")
            assert "host-" not in str(answer.body)
        assert (await explained(root, one.instance_uuid, who="v:q")).status == 404
    request_id = created.headers["x-openstack-request-id"]
    assert (await explained(root, request_id)).body["driver"] == "zone_aware"
    for name in ("west", "deep"):
        below = await explained(net.zones[name], request_id, who="admin")
        assert below.body["placements"][0]["host"].startswith("host-")


async def test_the_id_of_a_decision_on_an_offer_is_found(deep: ZoneStack, far: str) -> None:
    """The id contains a slash, which may be encoded or not."""
    stored = await deep.ledger.get(Instance, far)
    assert stored is not None
    assert stored.decision_id is not None
    for key in (stored.decision_id, stored.decision_id.replace("/", "%2F"), far, stored.request_id):
        answer = await explained(deep, key, who="admin")
        assert (answer.status, answer.body["request_id"]) == (200, stored.decision_id)


async def test_a_request_about_a_server_below_has_one_id_in_all_zones(
    root: ZoneStack, deep: ZoneStack, far: str
) -> None:
    """The id in the root's response finds the decision that the child made."""
    stored = await deep.ledger.get(Instance, far)
    assert stored is not None
    body = {"resize": {"flavorRef": "big"}}
    asked = await root.ask("POST", f"/v2.1/servers/{far}/action", body, token="u:p")
    assert asked.status == 202, asked.body
    request_id = asked.headers["x-openstack-request-id"]
    await deep.follower.catch_up()
    (decided_on,) = deep.replica.pending
    refused = replace(
        make_decision(), request_id=decided_on, verdict=Verdict.REFUSED, project_id="p"
    )
    await deep.ledger.commit([(Put(refused),)])
    for who, query in (("u:p", ""), ("u:p", f"?server={far}"), ("admin", f"?server={far}")):
        answer = await explained(root, request_id, who=who, query=query)
        assert (answer.status, answer.body.get("verdict")) == (200, "refused")
    assert (await explained(root, request_id, who="v:q")).status == 404
    listed = await root.ask("GET", f"{PATH}?server={far}", token="u:p")
    ids = [one["request_id"] for one in listed.body["decisions"]]
    assert {decided_on, stored.decision_id, stored.request_id} == set(ids)


async def test_a_child_may_not_show_what_is_not_theirs(net: Net, root: ZoneStack, far: str) -> None:
    """A decision of another project is not shown, and invalid answers are the child's failure."""
    foreign = replace(make_decision(9), project_id="q")
    net.lies["east", "GET"] = ForwardedResponse(200, body=encode(foreign))
    answer = await explained(root, far)
    assert (answer.status, answer.body["driver"]) == (200, "zone_aware")
    for body in (b"[]", b"{", b"[" * 100_000):
        net.lies["east", "GET"] = ForwardedResponse(200, body=body)
        answer = await explained(root, far)
        assert answer.status == 503
        assert "east" not in str(answer.body)


async def test_a_silent_child_is_not_taken_for_a_missing_decision(
    net: Net, root: ZoneStack, far: str
) -> None:
    """While a child does not answer, its decisions may exist; its name is not given."""
    net.away.add("east")
    for key in (far, ASKED):
        answer = await explained(root, key)
        assert answer.status == 503
        assert "east" not in str(answer.body)
    assert (await explained(root, "anything")).status == 404
    remote = await root.ledger.get(RemoteInstance, far)
    assert remote is not None
    decision = await root.ledger.get(Decision, remote.request_id)
    assert decision is not None
    assert (await explained(root, remote.request_id)).status == 200
