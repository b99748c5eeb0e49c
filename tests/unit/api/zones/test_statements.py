"""Requests with a parent's assertion, and requests without a valid one."""

from dataclasses import replace

import pytest

from berth.api.app import build_app
from berth.api.auth.authentication import Credentials, Identity
from berth.api.codec import decode, encode
from berth.api.errors import HttpError
from berth.domain.compute.flavor import Image
from berth.domain.compute.instance import Instance
from berth.domain.compute.request import Request
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.ledger.write import Put
from berth.domain.zones.zone import RemoteInstance, RemoteInstanceStage
from berth.domain.zones.zone_orders import SelectOrder
from berth.ports.zones import STATEMENT_HEADER
from berth.services.zoning.messages.assertions import AssertionVerifier
from berth.services.zoning.messages.message_parts import GroupMessage, RequestMessage
from berth.services.zoning.messages.zone_messages import (
    BuildMessage,
    InstanceMessage,
    OffersMessage,
    SelectMessage,
)
from berth.testing.builders import make_flavor
from tests.unit.api.cloud import Answer, Json
from tests.unit.api.zones.tree import Net, ZoneStack, key_of

UUID = "00000000-0000-4000-8000-00000000beef"
SELECT, RELEASE, BUILD = "/zones/select", "/zones/release", "/v2.1/servers"
FLAVOR = make_flavor()


def request_message(**values: object) -> RequestMessage:
    """Return a request of project p and user u."""
    said: Json = {
        "request_id": "req-1",
        "flavor": FLAVOR,
        "project_id": "p",
        "user_id": "u",
        **values,
    }
    return RequestMessage(**said)


def select_message(count: int = 1, **values: object) -> bytes:
    """Return the body of a select."""
    return encode(SelectMessage(request_message(**values), num_instances=count))


def build_message(offers: OffersMessage, **values: object) -> bytes:
    """Return the body of a build of one instance with the first offer."""
    instance: Json = {"uuid": UUID, "name": "vm", "blob": offers.weights[0].blob, "sent_ms": 1}
    said: Json = {"request": request_message(), "reservation_id": "r-00000001"}
    for name, value in values.items():
        (instance if name in {*instance, "launch_index"} else said)[name] = value
    said.setdefault("instances", (InstanceMessage(**instance),))
    return encode(BuildMessage(**said))


async def offers_of(zone: ZoneStack, count: int = 1) -> OffersMessage:
    """Return the offers of a zone."""
    answer = await zone.stated("POST", SELECT, select_message(count))
    assert answer.status == 200, answer.body
    return decode(encode(answer.body), OffersMessage)


async def ask_with(
    zone: ZoneStack, text: str, method: str, path: str, body: bytes = b"", who: str = "root"
) -> Answer:
    """Send a request with the text of an assertion."""
    headers = {STATEMENT_HEADER: text}
    return await zone.ask(method, path, body or None, token=who, headers=headers)


async def test_what_is_for_another_tenant_is_refused_before_it_is_worked_on(
    west: ZoneStack,
) -> None:
    """The tenant and the length of the request id are checked before uuids are derived."""
    body = select_message(10**9, project_id="other", request_id="r" * 1_000)
    assert (await west.stated("POST", SELECT, body)).status == 403
    answer = await west.stated("POST", SELECT, select_message(10**9, request_id="r" * 1_000))
    assert "request.request_id" in str(answer.body)


async def test_an_offer_is_made_and_built(west: ZoneStack) -> None:
    """A select returns offers, and a build with one of them creates the instance."""
    offers = await offers_of(west, 3)
    assert len(offers.weights) == 3
    answer = await west.stated("POST", BUILD, build_message(offers))
    assert answer.status == 202, answer.body
    assert answer.body == {
        "reservation_id": "r-00000001",
        "instances": [{"uuid": UUID, "flaw": None}],
    }
    stored = await west.ledger.get(Instance, UUID)
    assert stored is not None
    assert (stored.project_id, stored.user_id, stored.host) == ("p", "u", "host-0")
    shown = await west.stated("GET", f"/v2.1/servers/{UUID}")
    assert len(shown.body["server"]["hostId"]) == 56
    assert "OS-EXT-SRV-ATTR:host" not in shown.body["server"]


async def test_what_is_released_is_gone(west: ZoneStack) -> None:
    """A release is accepted, and a later build of an instance that it withdrew is refused."""
    offers = await offers_of(west, 2)
    assert (await west.stated("POST", BUILD, build_message(offers))).status == 202
    body = encode(
        {
            "surplus": [{"select_id": offers.select_id, "keep": 1}],
            "withdrawn": [{"uuid": UUID, "sent_ms": 10}],
        }
    )
    answer = await west.stated("POST", RELEASE, body)
    assert (answer.status, answer.body) == (200, {"kept": []})
    late = build_message(offers, uuid=UUID.replace("beef", "cafe"), sent_ms=5)
    gone = encode({"withdrawn": [{"uuid": UUID.replace("beef", "cafe"), "sent_ms": 10}]})
    assert (await west.stated("POST", RELEASE, gone)).status == 200
    answer = await west.stated("POST", BUILD, late)
    assert answer.body["instances"][0]["flaw"]


class LockedOut:
    """An authentication that refuses everyone, as it refuses logins during a flood."""

    async def identify(self, credentials: Credentials) -> Identity:
        """See `Auth.identify`."""
        del credentials
        raise HttpError(503, "Too many logins are in progress.")


async def test_parents_do_not_wait_for_logins(net: Net) -> None:
    """A valid assertion authenticates a parent while logins fail; an invalid one does not."""
    zone = ZoneStack(net, "busy", number=9, parents=("root",), auth=LockedOut())
    await zone.start(1)
    assert (await zone.stated("GET", "/zones/info", tenant=("", ""))).status == 200
    offers = await offers_of(zone)
    answer = await zone.stated("POST", BUILD, build_message(offers))
    assert answer.status == 202, answer.body
    forged = await zone.stated("GET", f"/v2.1/servers/{UUID}", parent="mallory")
    assert forged.status == 401
    assert (await zone.stated("GET", "/zones")).status == 403
    assert (await zone.ask("GET", "/v2.1/servers", token="u:p")).status == 503
    await zone.ledger.close()


async def test_only_a_parent_selects(west: ZoneStack) -> None:
    """Without an assertion, select and release get 401, also for administrators."""
    for path, body in ((SELECT, select_message()), (RELEASE, b"{}")):
        for token in ("admin", "root", "u:p"):
            answer = await west.ask("POST", path, body, token=token)
            assert answer.status == 401
            assert "X-Berth-Zone-Statement" in answer.body["unauthorized"]["message"]


@pytest.mark.parametrize("path", ["/v2.1/servers", f"/v2.1/servers/{UUID}", SELECT])
async def test_forged_statements_are_refused(west: ZoneStack, path: str) -> None:
    """An assertion that is invalid, expired or for another zone gets 401."""
    method, body = ("POST", select_message()) if path == SELECT else ("GET", b"")
    good = west.statement(method, path, body)
    content, _, signature = good.partition(".")
    elsewhere = west.net.zones["deep"].statement(method, path, body)
    stranger = west.statement(method, path, body, parent="mallory")
    child = west.statement(method, path, body, parent="west")
    for text in (
        "",
        "x",
        "a" * 5000,
        f"{content}.",
        f"{content}.{signature[:-4]}AAAA",
        f"{content[:-4]}AAAA.{signature}",
        elsewhere,
        stranger,
        child,
    ):
        answer = await ask_with(west, text, method, path, body, who="admin")
        assert answer.status == 401, text
    west.clock.seconds += 61
    assert (await ask_with(west, good, method, path, body)).status == 401


async def test_a_statement_is_for_one_request(west: ZoneStack) -> None:
    """An assertion is valid once, for its method, path, query and body."""
    server = await west.server(token="u:p")
    path = f"/v2.1/servers/{server}"
    for method, other, body in (
        ("DELETE", path, b""),
        ("GET", f"{path}?a=b", b""),
        ("GET", "/v2.1/servers", b""),
        ("GET", f"{path}/metadata", b""),
    ):
        answer = await ask_with(west, west.statement("GET", path), method, other, body)
        assert answer.status == 401
        assert "another request" in answer.body["unauthorized"]["message"]
    text = west.statement("POST", f"{path}/action", b'{"os-stop": null}')
    answer = await ask_with(west, text, "POST", f"{path}/action", b'{"forceDelete": null}')
    assert answer.status == 401
    assert (await west.ledger.get(Instance, server)) is not None
    text = west.statement("GET", path)
    assert (await ask_with(west, text, "GET", path)).status == 200
    answer = await ask_with(west, text, "GET", path)
    assert answer.status == 401
    assert "already been used" in answer.body["unauthorized"]["message"]


async def test_a_change_is_not_repeated_at_another_process(west: ZoneStack) -> None:
    """A recorded change is refused by every process of the zone; a read only by its first one."""
    path = f"/v2.1/servers/{await west.server(token='u:p')}"
    change, read = west.statement("DELETE", path), west.statement("GET", path)
    assert (await ask_with(west, read, "GET", path)).status == 200
    assert (await ask_with(west, change, "DELETE", path)).status == 204
    verifier = AssertionVerifier(
        west.name, lambda: {"root": (key_of("root").public_key(),)}, west.clock.now_s
    )
    zone = replace(west.zone_parts, assertions=verifier)
    west.app = build_app(replace(west.parts, zones=zone))
    answer = await ask_with(west, change, "DELETE", path)
    assert answer.status == 401
    assert "already been used" in answer.body["unauthorized"]["message"]
    assert (await ask_with(west, read, "GET", path)).status != 401


async def test_a_caller_by_statement_is_its_tenant(west: ZoneStack) -> None:
    """A caller with an assertion has the rights of the tenant, whatever its account."""
    mine, theirs = await west.server(token="u:p"), await west.server(token="v:q")
    for token in ("root", "admin", "v:q"):
        listed = await ask_with(
            west, west.statement("GET", "/v2.1/servers"), "GET", "/v2.1/servers", who=token
        )
        assert [one["id"] for one in listed.body["servers"]] == [mine]
        path = f"/v2.1/servers/{theirs}"
        for method in ("GET", "DELETE"):
            answer = await ask_with(west, west.statement(method, path), method, path, who=token)
            assert answer.status == 404
    everybody = "/v2.1/servers?all_tenants=1"
    answer = await ask_with(west, west.statement("GET", everybody), "GET", everybody, who="admin")
    assert answer.status == 403
    body = b'{"migrate": null}'
    answer = await west.stated("POST", f"/v2.1/servers/{mine}/action", body)
    assert answer.status == 403


async def test_a_tenant_called_admin_is_no_administrator(west: ZoneStack) -> None:
    """A tenant named admin in an assertion is not an administrator."""
    other = await west.server(token="v:q")
    path = f"/v2.1/servers/{other}"
    assert (await west.stated("GET", path, tenant=("admin", "admin"))).status == 404
    answer = await west.stated("GET", "/v2.1/servers?all_tenants=1", tenant=("admin", "admin"))
    assert answer.status == 403


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v2.1/flavors"),
        ("GET", "/v2.1/os-hypervisors"),
        ("GET", "/berth/v1/state"),
        ("GET", "/zones"),
        ("DELETE", "/zones/1"),
        ("GET", "/v2.1/os-quota-sets/p"),
    ],
)
async def test_a_statement_has_no_place_elsewhere(west: ZoneStack, method: str, path: str) -> None:
    """Routes that tenants of a parent do not use refuse any assertion."""
    text = west.statement(method, path)
    answer = await ask_with(west, text, method, path, who="admin")
    assert answer.status == 403


async def test_an_empty_tenant_is_none(west: ZoneStack) -> None:
    """An assertion without a tenant can read /zones/info but no servers."""
    await west.server(token="u:p")
    answer = await west.stated("GET", "/zones/info", tenant=("", ""))
    assert answer.status == 200
    for path in ("/v2.1/servers", f"/v2.1/servers/{UUID}"):
        assert (await west.stated("GET", path, tenant=("", ""))).status == 403
    body = encode({"withdrawn": [{"uuid": UUID, "sent_ms": 1}]})
    assert (await west.stated("POST", RELEASE, body, tenant=("", ""))).status == 403
    assert (await west.stated("POST", RELEASE, b"{}", tenant=("", ""))).status == 200
    odd = await west.stated("GET", "/v2.1/servers", tenant=("a\nb", "u"))
    assert odd.status == 403


async def test_an_order_is_for_the_statements_tenant(west: ZoneStack) -> None:
    """A select or build for another project or user than the assertion's gets 403."""
    offers = await offers_of(west)
    cases: tuple[Json, ...] = ({"project_id": "q"}, {"user_id": "v"})
    for values in cases:
        answer = await west.stated("POST", SELECT, select_message(**values))
        assert answer.status == 403
        body = build_message(offers, request=request_message(**values))
        assert (await west.stated("POST", BUILD, body)).status == 403
    assert await west.ledger.get(Instance, UUID) is None


async def test_offers_are_for_the_parent_that_signs(net: Net) -> None:
    """An offer that was made to one parent cannot be built by another."""
    zone = ZoneStack(net, "shared", number=9, parents=("root", "other"))
    await zone.start(1)
    offers = await offers_of(zone)
    answer = await zone.stated("POST", BUILD, build_message(offers), parent="other")
    assert answer.body["instances"] == [{"uuid": UUID, "flaw": "other_audience"}]
    assert await zone.ledger.get(Instance, UUID) is None
    await zone.ledger.close()


@pytest.mark.parametrize(
    "values",
    [
        {"uuid": ".."},
        {"uuid": "00000000-0000-4000-8000-00000000BEEF"},
        {"uuid": f"{UUID}\n"},
        {"name": ""},
        {"name": "a\x07"},
        {"name": "n" * 301},
        {"sent_ms": -1},
        {"sent_ms": 2**63 - 1},
        {"launch_index": -1},
        {"reservation_id": "r 1"},
        {"instances": ()},
        {"metadata": {"a": "v" * 256}},
        {"metadata": {f"k{number}": "v" for number in range(129)}},
        {"extra": {"tags": "x"}},
        {"extra": {"more": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}},
        {"blob": "A" * 100_000},
        {"extra": {"user_data": "x" * 65_536}},
        {"requested_zone": "z" * 400},
        {"request": request_message(request_id="a b")},
        {"request": request_message(hints={"_nova_check_type": ("rebuild",)})},
        {"request": request_message(hints={"a": ("v" * 256,)})},
        {"request": request_message(group_uuid=UUID)},
        {"request": request_message(name="a\x07")},
        {"request": request_message(metadata={"a": "v" * 256})},
    ],
)
async def test_a_build_is_read_as_what_a_client_sends(west: ZoneStack, values: Json) -> None:
    """A build with values that no client could send gets 400, and nothing is built."""
    offers = await offers_of(west)
    answer = await west.stated("POST", BUILD, build_message(offers, **values))
    assert answer.status == 400, answer.body
    assert await west.ledger.get(Instance, UUID) is None


@pytest.mark.parametrize(
    "values",
    [
        {"flavor": replace(FLAVOR, extra_specs={f"k{n}": "v" * 100_000 for n in range(150)})},
        {"image": Image("i", properties={f"k{n}": "v" * 60_000 for n in range(250)})},
        {"metadata": {f"k{n}": "v" * 100_000 for n in range(150)}},
        {"name": "n" * 15_000_000},
    ],
    ids=["flavor", "image", "metadata", "name"],
)
async def test_a_huge_flavor_or_image_is_refused(west: ZoneStack, values: Json) -> None:
    """Selects and builds of 15 MB get 400, although their bodies may be that long."""
    answer = await west.stated("POST", SELECT, select_message(**values))
    assert answer.status == 400, answer.body
    offers = await offers_of(west)
    body = build_message(offers, request=request_message(**values))
    assert (await west.stated("POST", BUILD, body)).status == 400
    assert await west.ledger.get(Instance, UUID) is None


async def test_a_parent_cannot_say_what_this_zone_notes(west: ZoneStack) -> None:
    """Of a build's extra fields, only those that clients may write are stored."""
    offers = await offers_of(west)
    extra = {"description": "d", "berth:withdrawn_ms": 5, "locked": "by nobody", "host": "host-1"}
    answer = await west.stated("POST", BUILD, build_message(offers, extra=extra))
    assert answer.status == 202, answer.body
    stored = await west.ledger.get(Instance, UUID)
    assert stored is not None
    assert stored.extra == {"description": "d"}


async def test_a_body_of_a_client_is_no_build(west: ZoneStack) -> None:
    """A client's body with an assertion gets 400."""
    body = encode({"server": {"name": "vm", "flavorRef": "small", "networks": "none"}})
    assert (await west.stated("POST", BUILD, body)).status == 400
    assert (await west.stated("GET", BUILD)).body["servers"] == []


async def test_instances_of_other_projects_are_left_alone(west: ZoneStack) -> None:
    """A release does not affect instances of another project, here or below."""
    theirs = await west.server(token="v:q")
    sent = RemoteInstance(UUID, 1, RemoteInstanceStage.THERE, "q", "v", "r-1", "req-1")
    await west.ledger.commit([(Put(sent),)])
    body = encode({"withdrawn": [{"uuid": uuid, "sent_ms": 10} for uuid in (theirs, UUID)]})
    answer = await west.stated("POST", RELEASE, body)
    assert (answer.status, answer.body) == (200, {"kept": []})
    stored = await west.ledger.get(Instance, theirs)
    assert stored is not None
    assert stored.task is not None
    assert stored.task.value != "deleting"
    assert await west.ledger.get(RemoteInstance, UUID) == sent
    assert await west.ledger.get(Instance, UUID) is None


async def test_an_errand_of_another_project_is_not_taken(net: Net) -> None:
    """A build with the uuid of another project's remote instance is refused."""
    east = net.zones["east"]
    sent = RemoteInstance(UUID, 1, RemoteInstanceStage.THERE, "q", "v", "r-1", "req-1")
    await east.ledger.commit([(Put(sent),)])
    offers = await offers_of(east)
    answer = await east.stated("POST", BUILD, build_message(offers))
    assert answer.body["instances"] == [{"uuid": UUID, "flaw": "used"}]
    assert await east.ledger.get(RemoteInstance, UUID) == sent


async def test_groups_of_other_projects_are_not_joined(west: ZoneStack) -> None:
    """A select with a group of another project gets 400."""
    theirs = ServerGroup(UUID, "g", GroupPolicy.ANTI_AFFINITY, "q", "v")
    for group in (theirs, ServerGroup(UUID, "g", GroupPolicy.ANTI_AFFINITY, "p", "u")):
        message = SelectMessage(request_message(group_uuid=UUID), group=GroupMessage.of(group))
        if group is not theirs:
            fresh = await west.stated("POST", SELECT, encode(message))
            assert fresh.status == 200, fresh.body
            await west.ledger.commit([(Put(theirs),)])
        answer = await west.stated("POST", SELECT, encode(message))
        assert answer.status == 400
        assert "could not be found" in answer.body["badRequest"]["message"]


async def test_a_select_ends_in_the_time_of_this_zone(west: ZoneStack) -> None:
    """The deadline of a select is at most that of the zone's settings."""
    seen: list[SelectOrder] = []
    offers = west.house.selector.offers

    async def noted(order: SelectOrder) -> object:
        seen.append(order)
        return await offers(order)

    west.house.selector.offers = noted  # type: ignore[method-assign, assignment]
    for deadline_ms, wanted_s in ((60_000, 2.0), (500, 0.5)):
        body = encode(SelectMessage(request_message(), deadline_ms=deadline_ms))
        assert (await west.stated("POST", SELECT, body)).status == 200
        assert seen[-1].deadline_s - west.clock.now_s() == wanted_s
        assert seen[-1].audience == "root"


@pytest.mark.parametrize(
    "changed",
    [
        {"num_instances": 0},
        {"num_instances": 10_001},
        {"deadline_ms": 0},
        {"deadline_ms": 10**9},
        {"blob_bytes": 1},
        {"blob_bytes": 10**9},
        {"request": {}},
        {"request": None},
    ],
)
async def test_a_select_has_bounds(west: ZoneStack, changed: Json) -> None:
    """A count, time or size out of bounds gets 400."""
    body = {**decode(select_message(), dict[str, object]), **changed}
    answer = await west.stated("POST", SELECT, encode(body))
    assert answer.status == 400


async def test_the_name_and_metadata_of_a_select_are_those_of_a_client(west: ZoneStack) -> None:
    """A select with a name or metadata that no client could send gets 400."""
    for values in ({"name": "n" * 301}, {"metadata": {"a": "v" * 256}}):
        answer = await west.stated("POST", SELECT, select_message(**values))
        assert answer.status == 400, answer.body
    valid = select_message(name="web", metadata={"tier": "db"})
    assert (await west.stated("POST", SELECT, valid)).status == 200


async def test_only_a_parent_has_a_long_body_read(west: ZoneStack) -> None:
    """Only a body with a valid assertion may exceed the limit, up to 32 MiB."""
    body = b" " * (west.parts.limits.body_bytes_max + 1) + select_message()
    assert (await west.stated("POST", SELECT, body)).status == 200
    forged = west.statement("POST", BUILD, body, parent="mallory")
    assert (await ask_with(west, forged, "POST", BUILD, body)).status == 401
    assert (await west.ask("POST", BUILD, body, token="u:p")).status == 413
    huge = b" " * (32 * 1024 * 1024 + 1)
    assert (await west.stated("POST", SELECT, huge)).status == 413
    deep = b'{"request":' + b"[" * 10_000 + b"]" * 10_000 + b"}"
    for path in (SELECT, RELEASE, BUILD):
        assert (await west.stated("POST", path, deep)).status == 400


async def test_a_request_of_a_scheduler_reaches_all_bounds(west: ZoneStack) -> None:
    """The select that a scheduler sends is accepted."""
    request = Request("req-9", (UUID,), FLAVOR, project_id="p", user_id="u")
    order = SelectOrder(request, "root", west.clock.now_s() + 2.0)
    body = encode(SelectMessage.of(order, west.clock.now_s()))
    assert (await west.stated("POST", SELECT, body)).status == 200
