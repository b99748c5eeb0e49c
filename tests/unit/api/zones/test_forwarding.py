"""Requests about servers in child zones."""

import json
from dataclasses import replace

import pytest

from berth.api.codec import encode
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.errors import UnavailableError
from berth.domain.ledger.write import Put
from berth.domain.zones.zone import RemoteInstance, RemoteInstanceStage
from berth.ports.zones import ForwardedResponse
from tests.unit.api.cloud import Json
from tests.unit.api.zones.tree import Net, ZoneStack

UUID = "00000000-0000-4000-8000-00000000beef"


@pytest.fixture
async def far(net: Net, root: ZoneStack) -> str:
    """Create a server of project p and user u two zones below the root, and return its id."""
    net.away.add("west")
    uuid = await root.server(token="u:p")
    net.away.clear()
    assert await net.zones["deep"].ledger.get(Instance, uuid) is not None
    net.seen.clear()
    return uuid


async def show(root: ZoneStack, uuid: str, *, who: str = "u:p") -> Json:
    """Return a server that must exist."""
    answer = await root.ask("GET", f"/v2.1/servers/{uuid}", token=who, version="2.26")
    assert answer.status == 200, answer.body
    server: Json = answer.body["server"]
    return server


async def test_a_server_below_is_shown(net: Net, root: ZoneStack, far: str) -> None:
    """Each zone on the way asks the next one in the name of the tenant."""
    server = await show(root, far)
    assert (server["id"], server["tenant_id"], server["user_id"]) == (far, "p", "u")
    assert server["tags"] == []
    assert server["links"][0]["href"] == f"http://berth.test/v2.1/servers/{far}"
    assert len(server["hostId"]) == 56
    assert [(one.zone, one.project_id, one.user_id) for one in net.seen] == [
        ("east", "p", "u"),
        ("deep", "p", "u"),
    ]


async def test_nobody_else_finds_it(net: Net, root: ZoneStack, far: str) -> None:
    """Another tenant gets the same 404 as for an unknown server, and no child is asked."""
    there = await root.ask("GET", f"/v2.1/servers/{far}", token="v:q")
    nowhere = await root.ask("GET", f"/v2.1/servers/{UUID}", token="v:q")
    assert there.status == nowhere.status == 404
    assert str(there.body).replace(far, UUID) == str(nowhere.body)
    for method, path, body in (
        ("DELETE", "", None),
        ("POST", "/action", {"os-stop": None}),
        ("GET", "/metadata", None),
        ("PUT", "", {"server": {"name": "mine"}}),
    ):
        answer = await root.ask(method, f"/v2.1/servers/{far}{path}", body, token="v:q")
        assert answer.status == 404
    assert not net.seen


async def test_a_console_is_not_requested_from_a_child(net: Net, root: ZoneStack, far: str) -> None:
    """Its URL would contain the address of the child."""
    path = f"/v2.1/servers/{far}"
    for name, body in (
        ("action", {"os-getVNCConsole": {"type": "novnc"}}),
        ("remote-consoles", {"remote_console": {"protocol": "vnc", "type": "novnc"}}),
    ):
        version = "2.5" if name == "action" else "2.6"
        answer = await root.ask("POST", f"{path}/{name}", body, token="u:p", version=version)
        assert answer.status == 501
    assert not net.seen


async def test_an_administrator_acts_in_its_tenants_name(
    net: Net, root: ZoneStack, far: str
) -> None:
    """An administrator of the root has only the tenant's rights in the children."""
    server = await show(root, far, who="admin")
    assert "OS-EXT-SRV-ATTR:host" not in server
    assert {(one.project_id, one.user_id) for one in net.seen} == {("p", "u")}
    migrate = await root.ask(
        "POST", f"/v2.1/servers/{far}/action", {"migrate": None}, token="admin"
    )
    assert migrate.status == 403
    assert "dministrators" in migrate.body["forbidden"]["message"]


async def test_what_is_changed_is_changed_there(net: Net, root: ZoneStack, far: str) -> None:
    """Names, metadata, tags and actions reach the server, also with special characters."""
    path = f"/v2.1/servers/{far}"
    answer = await root.ask("PUT", path, {"server": {"name": "new"}}, token="u:p")
    assert answer.body["server"]["name"] == "new"
    await root.ask("PUT", f"{path}/metadata/a%20b", {"meta": {"a b": "c"}}, token="u:p")
    answer = await root.ask("GET", f"{path}/metadata", token="u:p")
    assert answer.body["metadata"] == {"a b": "c"}
    tag = await root.ask("PUT", f"{path}/tags/t%C3%A9%3F%25", token="u:p", version="2.26")
    assert tag.status == 201
    assert (await show(root, far))["tags"] == ["té?%"]
    gone = await root.ask("DELETE", f"{path}/tags", token="u:p", version="2.26")
    assert (gone.status, gone.body) == (204, None)
    deep = net.zones["deep"]
    await deep.activate(far)
    stop = await root.ask("POST", f"{path}/action", {"os-stop": None}, token="u:p")
    assert (stop.status, stop.body) == (202, None)
    again = await root.ask("POST", f"{path}/action", {"os-stop": None}, token="u:p")
    assert again.status == 409
    actions = await root.ask(
        "GET", f"{path}/os-instance-actions?limit=1", token="u:p", version="2.62"
    )
    (action,) = actions.body["instanceActions"]
    assert (action["action"], action["user_id"]) == ("stop", "u")


async def test_metadata_called_links_is_no_link(root: ZoneStack, far: str) -> None:
    """Metadata with the key `links` is passed on unchanged."""
    body = {"metadata": {"links": "mine", "x_links": "http://elsewhere/"}}
    answer = await root.ask("POST", f"/v2.1/servers/{far}/metadata", body, token="u:p")
    assert answer.body == body
    assert (await show(root, far))["metadata"] == body["metadata"]


async def test_a_deleted_server_is_forgotten(net: Net, root: ZoneStack, far: str) -> None:
    """A deleted server is not charged, and its remote instances are removed once it is gone."""
    assert (await root.ledger.project_footprint("p")).instances
    answer = await root.ask("DELETE", f"/v2.1/servers/{far}", token="u:p")
    assert (answer.status, answer.body) == (204, None)
    deep = net.zones["deep"]
    stored = await deep.ledger.get(Instance, far)
    assert stored is not None
    assert stored.task is Task.DELETING
    before = (await root.ledger.project_footprint("p")).instances
    assert before == len(await root.ledger.remote_instances(project_id="p")) - 1
    await deep.ledger.commit([(Put(replace(stored, status=Status.DELETED, task=None)),)])
    gone = await root.ask("GET", f"/v2.1/servers/{far}", token="u:p")
    assert gone.status == 404
    assert far in gone.body["itemNotFound"]["message"]
    for name in ("root", "east"):
        assert await net.zones[name].ledger.get(RemoteInstance, far) is None


async def test_a_server_on_its_way_is_not_forgotten(net: Net, root: ZoneStack) -> None:
    """A child's 404 does not remove a remote instance that is still being sent."""
    await errand(root, UUID, RemoteInstanceStage.SENDING)
    answer = await root.ask("GET", f"/v2.1/servers/{UUID}", token="u:p")
    assert answer.status == 404
    assert net.seen
    assert await root.ledger.get(RemoteInstance, UUID) is not None


async def errand(
    root: ZoneStack, uuid: str, stage: RemoteInstanceStage = RemoteInstanceStage.THERE
) -> None:
    """Write a remote instance in west to the root's ledger."""
    sent = RemoteInstance(uuid, 1, stage, "p", "u", "r-1", "req-1")
    await root.ledger.commit([(Put(sent),)])


async def test_a_missing_part_of_a_server_forgets_nothing(root: ZoneStack, far: str) -> None:
    """A 404 for a metadata item does not remove the remote instance."""
    answer = await root.ask("GET", f"/v2.1/servers/{far}/metadata/none", token="u:p")
    assert answer.status == 404
    await show(root, far)


async def test_administrators_read_which_child_does_not_answer(
    net: Net, root: ZoneStack, far: str
) -> None:
    """The request gets 503 with Retry-After, and for administrators the name of the child."""
    for name in ("east", "deep"):
        net.away = {name}
        named = await root.ask("GET", f"/v2.1/servers/{far}", token="admin")
        assert "east" in named.body["serviceUnavailable"]["message"]
        answer = await root.ask("GET", f"/v2.1/servers/{far}", token="u:p")
        assert answer.status == 503
        assert answer.headers["retry-after"]
        message = answer.body["serviceUnavailable"]["message"]
        assert message == "the server cannot be reached at present; try again"


async def test_why_a_child_does_not_answer_is_for_operators(
    root: ZoneStack, far: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error hides the child's address, and the failure is reported."""

    async def refuse(*_: object, **__: object) -> None:
        raise UnavailableError("cannot connect to 192.0.2.7:8774")

    monkeypatch.setattr(root.children, "forward", refuse)
    answer = await root.ask("GET", f"/v2.1/servers/{far}", token="admin")
    message = answer.body["serviceUnavailable"]["message"]
    assert message == "zone east is unavailable; try again"
    assert root.told.failures[-1][0] == "zone_request_failed"


async def test_a_child_that_is_disabled_keeps_its_servers(
    net: Net, root: ZoneStack, far: str
) -> None:
    """Servers of a disabled child are shown, listed, changed and deleted as before."""
    answer = await root.ask("PUT", "/zones/2", {"zone": {"is_enabled": False}})
    assert answer.status == 200
    await root.follower.catch_up()
    assert [one.name for one in root.watch.active()] == ["west"]
    assert (await show(root, far))["id"] == far
    listed = await root.ask("GET", "/v2.1/servers", token="u:p")
    assert [one["id"] for one in listed.body["servers"]] == [far]
    assert "x-berth-zones-missing" not in listed.headers
    path = f"/v2.1/servers/{far}"
    await net.zones["deep"].activate(far)
    stop = await root.ask("POST", f"{path}/action", {"os-stop": None}, token="u:p")
    assert stop.status == 202
    assert (await root.ask("DELETE", path, token="u:p")).status == 204


async def test_a_child_that_is_disabled_takes_back_what_it_has(
    net: Net, root: ZoneStack, far: str
) -> None:
    """Settling releases a server in a disabled child."""
    await root.ask("PUT", "/zones/2", {"zone": {"is_enabled": False}})
    await root.follower.catch_up()
    root.house.children = [one.zone for one in root.watch.states().values()]
    sent = await root.ledger.get(RemoteInstance, far)
    assert sent is not None
    settled = await root.house.delegator.settle([sent], keeps_built=False)
    assert settled.absent == {far}
    stored = await net.zones["deep"].ledger.get(Instance, far)
    assert stored is not None
    assert stored.task is Task.DELETING


async def test_a_child_that_is_removed_and_added_again(net: Net, root: ZoneStack, far: str) -> None:
    """Servers of a removed child get 503 and are not listed until it is added again."""
    assert (await root.ask("DELETE", "/zones/2")).status == 204
    await root.follower.catch_up()
    net.seen.clear()
    gone = await root.ask("GET", f"/v2.1/servers/{far}", token="u:p")
    assert gone.status == 503
    listed = await root.ask("GET", "/v2.1/servers", token="u:p")
    assert (listed.status, listed.body["servers"]) == (200, [])
    assert "x-berth-zones-missing" not in listed.headers
    assert not net.seen
    assert (await root.ask("GET", "/berth/v1/state")).body["zones"][0]["name"] == "west"
    assert len((await root.ask("GET", "/berth/v1/state")).body["zones"]) == 1
    await root.adopt(net.zones["east"])
    assert (await root.ask("GET", "/zones/2")).body["zone"]["name"] == "east"
    assert (await show(root, far))["id"] == far


async def test_a_server_that_is_taken_back_is_in_no_list(
    net: Net, root: ZoneStack, far: str
) -> None:
    """A server that is being withdrawn is not listed, and its child is not asked."""
    sent = await root.ledger.get(RemoteInstance, far)
    assert sent is not None
    await root.ledger.commit([(Put(replace(sent, stage=RemoteInstanceStage.WITHDRAWING)),)])
    net.seen.clear()
    listed = await root.ask("GET", "/v2.1/servers", token="u:p")
    assert listed.body["servers"] == []
    assert not net.seen


@pytest.mark.parametrize(
    "lie",
    [
        ForwardedResponse(200, {}, encode({"server": {"id": UUID, "tenant_id": "p"}})),
        ForwardedResponse(200, {}, encode({"server": "x"})),
        ForwardedResponse(200, {}, encode({"server": None})),
        ForwardedResponse(200, {}, b"{}"),
        ForwardedResponse(200, {}, b""),
        ForwardedResponse(204, {}, b""),
        ForwardedResponse(200, {}, b"<script>"),
        ForwardedResponse(200, {}, b"[]"),
        ForwardedResponse(200, {}, b'{"a":' * 5000 + b"1" + b"}" * 5000),
        ForwardedResponse(200, {}, b" " * 33 * 1024 * 1024),
        ForwardedResponse(302, {"location": "http://elsewhere/"}, b""),
        ForwardedResponse(401, {"www-authenticate": "Basic"}, b"{}"),
        ForwardedResponse(500, {}, b'{"x": {"message": "host-7 burns"}}'),
        ForwardedResponse(999, {}, b""),
    ],
    ids=[
        "other",
        "text",
        "null",
        "none",
        "empty",
        "204",
        "html",
        "list",
        "deep",
        "long",
        "redirect",
        "401",
        "500",
        "999",
    ],
)
async def test_what_is_no_answer_is_not_passed_on(
    net: Net, root: ZoneStack, far: str, lie: ForwardedResponse
) -> None:
    """An invalid response of a child gets 503 and none of its content."""
    net.lies["east", "GET"] = lie
    answer = await root.ask("GET", f"/v2.1/servers/{far}", token="u:p")
    assert answer.status == 503
    assert "www-authenticate" not in answer.headers
    assert "location" not in answer.headers
    for word in ("elsewhere", "script", "burns", UUID):
        assert word not in str(answer.body)


async def test_another_tenants_server_is_not_passed_on(net: Net, root: ZoneStack, far: str) -> None:
    """A response with the right id but another owner gets 503."""
    lie = {"server": {"id": far, "tenant_id": "q", "name": "secret"}}
    net.lies["east", "GET"] = ForwardedResponse(200, {}, encode(lie))
    answer = await root.ask("GET", f"/v2.1/servers/{far}", token="u:p")
    assert answer.status == 503
    assert "secret" not in str(answer.body)


async def test_headers_and_links_of_a_child_stay_there(net: Net, root: ZoneStack, far: str) -> None:
    """Cookies and foreign links are dropped, and links to the server lead to the root."""
    links = [
        {"rel": "self", "href": f"http://10.0.0.7:8774/v2.1/servers/{far}"},
        {"rel": "self", "href": "http://10.0.0.7/secret"},
        {"rel": "self", "href": "javascript:alert(1)"},
        {"rel": "self", "href": "http://10.0.0.7/v2.1/servers/../../admin"},
        {"rel": "next", "href": f"http://10.0.0.7/v2.1/servers/{far}"},
        {"rel": "self", "href": "http://10.0.0.7" + "/a" * 5000 + "/v2.1/servers/x"},
        {"href": 7},
        {"rel": ["self"], "href": f"http://10.0.0.7/v2.1/servers/{far}"},
    ]
    body = {"server": {"id": far, "tenant_id": "p", "links": links}}
    headers = {"set-cookie": "a=b", "location": "http://10.0.0.7/", "content-type": "text/html"}
    net.lies["east", "GET"] = ForwardedResponse(200, headers, encode(body))
    answer = await root.ask("GET", f"/v2.1/servers/{far}", token="u:p")
    assert answer.body["server"]["links"] == [
        {"rel": "self", "href": f"http://berth.test/v2.1/servers/{far}"}
    ]
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["location"] == f"http://berth.test/v2.1/servers/{far}"
    assert "set-cookie" not in answer.headers
    assert "10.0.0.7" not in json.dumps(answer.body)


async def test_links_lead_to_what_was_asked_for(net: Net, root: ZoneStack, far: str) -> None:
    """Links are rebuilt for the requested server and its flavor, whatever the child says."""
    there = "http://10.0.0.7/v2.1"
    server = {
        "id": far,
        "links": [
            {"rel": "self", "href": f"{there}/servers/{UUID}"},
            {"rel": "bookmark", "href": f"http://10.0.0.7/servers/{UUID}/action"},
        ],
        "flavor": {"id": "a b", "links": [{"rel": "bookmark", "href": f"{there}/flavors/x"}]},
        "image": {"id": "..", "links": [{"rel": "bookmark", "href": f"{there}/images/x"}]},
        "x": {"links": [{"rel": "self", "href": f"{there}/servers/{UUID}"}]},
    }
    net.lies["east", "GET"] = ForwardedResponse(200, {}, encode({"server": server}))
    shown = await show(root, far)
    here = "http://berth.test"
    assert shown["links"] == [
        {"rel": "self", "href": f"{here}/v2.1/servers/{far}"},
        {"rel": "bookmark", "href": f"{here}/servers/{far}"},
    ]
    assert shown["flavor"]["links"] == [{"rel": "bookmark", "href": f"{here}/v2.1/flavors/a%20b"}]
    assert shown["image"]["links"] == []
    assert shown["x"]["links"] == []


async def test_a_refusal_is_told_in_bounds(net: Net, root: ZoneStack, far: str) -> None:
    """A child's refusal is passed on as text of at most 1,000 characters."""
    without_reason = "The request was refused without a reason."
    for body, wanted in (
        (encode({"conflictingRequest": {"message": "m" * 5000}}), "m" * 1000),
        (b"<html>", without_reason),
        (encode({"x": {"message": 7}}), without_reason),
    ):
        net.lies["east", "POST"] = ForwardedResponse(409, {}, body)
        answer = await root.ask(
            "POST", f"/v2.1/servers/{far}/action", {"os-stop": None}, token="u:p"
        )
        assert answer.status == 409
        assert answer.body["conflictingRequest"]["message"] == wanted


async def test_a_path_cannot_be_bent(net: Net, root: ZoneStack, far: str) -> None:
    """Encoded dots, slashes and other characters do not change the path."""
    for tail in ("metadata/%2e%2e", "metadata/%2E", "tags/%2e%2e"):
        answer = await root.ask("GET", f"/v2.1/servers/{far}/{tail}", token="u:p", version="2.26")
        assert answer.status in {400, 404}
        assert all(".." not in one.asked.path for one in net.seen)
    for key in ("%2e%2e", f"{far}%2F..%2F..%2Fzones", f"{far}%3Fa=b", f"{far}%23", f"{far}%0d%0aX"):
        net.seen.clear()
        answer = await root.ask("DELETE", f"/v2.1/servers/{key}", token="u:p")
        assert answer.status in {400, 404, 405}
        assert not net.seen
    net.seen.clear()
    answer = await root.ask("GET", f"/v2.1/servers/{far}/metadata/a%3Fb%23c%26", token="u:p")
    assert answer.status == 404
    assert net.seen[0].asked.path == f"/v2.1/servers/{far}/metadata/a%3Fb%23c%26"


async def test_an_odd_uuid_goes_nowhere(net: Net, root: ZoneStack) -> None:
    """A remote instance whose key is not a uuid gets 404, and no child is asked."""
    await errand(root, "..")
    await errand(root, "a b")
    for key in ("%2e%2e", "a%20b"):
        assert (await root.ask("DELETE", f"/v2.1/servers/{key}", token="u:p")).status == 404
    assert not net.seen


async def test_a_clients_own_statement_is_not_passed_on(
    net: Net, root: ZoneStack, far: str
) -> None:
    """Of a client's headers, only the API version reaches a child; the request id is ours."""
    headers = {"Authorization": "Basic eDp5", "Cookie": "a=b", "X-Berth-Zone-Time-Ms": "1"}
    answer = await root.ask("GET", f"/v2.1/servers/{far}", token="u:p", headers=headers)
    assert answer.status == 200
    sent = net.seen[0].asked.headers
    assert sent.keys() == {
        "OpenStack-API-Version",
        "x-berth-zone-time-ms",
        "x-berth-zone-request-id",
    }
    assert sent["x-berth-zone-time-ms"] == "24000"


async def test_a_server_deleted_on_its_way_is_gone(net: Net, root: ZoneStack, far: str) -> None:
    """A server that is deleted here gets 404, and its child is not asked."""
    stored = await net.zones["deep"].ledger.get(Instance, far)
    assert stored is not None
    gone = replace(stored, status=Status.DELETED, task=None, revision=0)
    await root.ledger.commit([(Put(gone),)])
    net.seen.clear()
    assert (await root.ask("GET", f"/v2.1/servers/{far}", token="u:p")).status == 404
    assert not net.seen
