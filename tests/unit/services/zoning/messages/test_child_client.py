"""Tests for the orders to child zones and the validation of their answers."""

import json
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest

from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.errors import UnavailableError
from berth.domain.zones.offer import OfferRefusalReason
from berth.domain.zones.zone import Zone, ZoneInfo
from berth.domain.zones.zone_orders import (
    BuildOutcome,
    Offers,
    ReleaseOrder,
    SelectOrder,
    UnusedOffers,
    Withdrawal,
)
from berth.ports.zones import ForwardedRequest, ForwardedResponse, NotAskedError
from berth.services.zoning.messages.child_client import ChildClient
from berth.services.zoning.messages.zone_messages import (
    BuildMessage,
    KeptMessage,
    OffersMessage,
    OutcomesMessage,
    ReleaseMessage,
    SelectMessage,
)
from tests.unit.services.zoning.zone_harness import build_order, request_of

NOW_S = 1_000.0
WEST = Zone(7, "west", "http://west.example")
GROUP = ServerGroup("g-1", "g", GroupPolicy.AFFINITY, "p", "u")
SELECT_ID = bytes(range(16))


class FixedClock:
    """A clock that stands still."""

    def now_s(self) -> float:
        """Return the time of all tests in this module."""
        return NOW_S

    def ticks_ns(self) -> int:
        """Return 0."""
        return 0

    async def sleep(self, seconds: float) -> None:
        """Return immediately."""


class Line:
    """Carries requests to a zone that gives the same answer to all of them.

    Attributes:
        asked: each request with its zone, tenant and timeout.
    """

    def __init__(self, answer: object, status: int = 200) -> None:
        body = answer if isinstance(answer, bytes) else msgspec.json.encode(answer)
        self._answer = ForwardedResponse(status, {"content-type": "application/json"}, body)
        self.asked: list[tuple[Zone, ForwardedRequest, tuple[str, str, float]]] = []

    async def forward(
        self,
        zone: Zone,
        asked: ForwardedRequest,
        *,
        project_id: str,
        user_id: str,
        timeout_s: float,
    ) -> ForwardedResponse:
        """Record the request and return the answer."""
        self.asked.append((zone, asked, (project_id, user_id, timeout_s)))
        return self._answer

    @property
    def children(self) -> ChildClient:
        """A client that sends its requests over this line."""
        return ChildClient(self, FixedClock())

    def sent(self, path: str, tenant: tuple[str, str, float]) -> bytes:
        """Return the body of the only request, a POST for this tenant."""
        ((zone, asked, told),) = self.asked
        assert (zone, asked.method, asked.path, told) == (WEST, "POST", path, tenant)
        assert asked.headers["Content-Type"] == "application/json"
        return asked.body


def select_order(count: int = 2) -> SelectOrder:
    """Return an order with all fields set."""
    request = replace(request_of(count), hints={"k": ("a", "b")}, availability_zone="az")
    return SelectOrder(request, "root", NOW_S + 1.5, 300, replace(GROUP, zone_id=None), hold=False)


def offers_of(weights: Sequence[float] = (2.0, 1.5), select_id: bytes = SELECT_ID) -> Offers:
    """Return offers with these weights."""
    return Offers(select_id, tuple(weights), tuple(bytes([n]) * 300 for n in range(len(weights))))


# ---- what is asked, and answered well ---------------------------------------------------------


async def test_a_zone_tells_of_itself() -> None:
    """Information about a zone is requested without a tenant."""
    told = ZoneInfo("west", {"hypervisor": ("kvm", "qemu")}, {"free.VCPU": (0.0, 8.0)})
    line = Line({"zone": told, "links": []})
    assert await line.children.info(WEST, timeout_s=3.0) == told
    ((zone, asked, tenant),) = line.asked
    assert (zone, asked.method, asked.path, tenant) == (WEST, "GET", "/zones/info", ("", "", 3.0))
    assert asked.body == b""


async def test_a_select_arrives_as_it_was_meant() -> None:
    """A select carries the whole order and the remaining time for the request's tenant."""
    order = select_order()
    line = Line(OffersMessage.of(offers_of()))
    assert await line.children.select(WEST, order, timeout_s=1.0) == offers_of()
    message = msgspec.json.decode(line.sent("/zones/select", ("p", "u", 1.0)), type=SelectMessage)
    assert message == SelectMessage.of(order, NOW_S)
    read = message.order("root", NOW_S)
    assert len(read.request.instance_uuids) == 2
    same = replace(read.request, instance_uuids=order.request.instance_uuids)
    assert replace(read, request=same) == order


async def test_a_build_arrives_as_it_was_meant() -> None:
    """A build carries each instance with its offer and returns the outcomes."""
    order = build_order(request_of(2), [b"a" * 300, b"b" * 300], audience="root")
    uuids = order.request.instance_uuids
    outcomes = (BuildOutcome(uuids[0]), BuildOutcome(uuids[1], OfferRefusalReason.GONE))
    line = Line(OutcomesMessage.of("r-1", outcomes))
    assert await line.children.build(WEST, order, timeout_s=9.0) == outcomes
    message = msgspec.json.decode(line.sent("/v2.1/servers", ("p", "u", 9.0)), type=BuildMessage)
    read = message.order("root", NOW_S)
    assert read.request == order.request
    assert [one.blob for one in read.items] == [b"a" * 300, b"b" * 300]
    assert [one.instance.name for one in read.items] == ["vm-0", "vm-1"]


async def test_a_release_arrives_as_it_was_meant() -> None:
    """A release carries the whole order and returns the instances that are kept."""
    order = ReleaseOrder(
        "root",
        (UnusedOffers(SELECT_ID, 1),),
        (Withdrawal("i-1", 5), Withdrawal("i-2", 6)),
        "p",
        True,
    )
    line = Line(KeptMessage(("i-2",)))
    assert await line.children.release(WEST, order, timeout_s=2.0) == {"i-2"}
    message = msgspec.json.decode(line.sent("/zones/release", ("p", "", 2.0)), type=ReleaseMessage)
    assert message.order("root", "p") == order


@pytest.mark.parametrize("count", [1, 1_000])
async def test_answers_may_be_as_long_as_what_is_asked_for(count: int) -> None:
    """The limit for the length of an answer grows with the order."""
    offers = Offers(SELECT_ID, (-1.2345678901234567e-300,) * count, (b"\xff" * 300,) * count)
    line = Line(OffersMessage.of(offers))
    await line.children.select(WEST, select_order(count), timeout_s=1.0)
    order = build_order(request_of(count), [b"a" * 300] * count)
    worst = tuple(
        BuildOutcome(uuid, OfferRefusalReason.GONE) for uuid in order.request.instance_uuids
    )
    built = Line(OutcomesMessage.of("r-1", worst))
    await built.children.build(WEST, order, timeout_s=1.0)
    for one in (line, built):
        assert len(one._answer.body) < one.asked[0][1].answer_bytes_max < 2_000_000


# ---- answers that are refused -----------------------------------------------------------------

_ODD: list[tuple[str, object]] = [
    ("nothing", b""),
    ("no JSON", b"<html>"),
    ("cut", b'{"select_id":"AA'),
    ("bad text", b'{"select_id":"\xff"}'),
    ("another thing", []),
    ("a number", 7),
    ("null", None),
    ("fields left out", {}),
    ("deep", b"[" * 100_000),
    ("deep within", b'{"x":' + b"[" * 100_000),
]


@pytest.mark.parametrize("answer", [one for _, one in _ODD], ids=[name for name, _ in _ODD])
async def test_what_does_not_belong_there_is_refused_by_all(answer: object) -> None:
    """A malformed answer is refused for every command, without quoting it."""
    children = Line(answer).children
    order = build_order(request_of(), [b"a" * 300])
    release = ReleaseOrder("root", withdrawn=(Withdrawal("i-1", 5),))
    for asked in (
        children.info(WEST, timeout_s=1.0),
        children.select(WEST, select_order(), timeout_s=1.0),
        children.build(WEST, order, timeout_s=1.0),
        children.release(WEST, release, timeout_s=1.0),
    ):
        with pytest.raises(UnavailableError) as caught:
            await asked
        assert "zone west gave an answer that does not match the order" in str(caught.value)


@pytest.mark.parametrize(
    "answer",
    [
        offers_of(select_id=b"short"),
        offers_of(select_id=b"x" * 17),
        {"select_id": "!", "weights": []},
        {"select_id": "ä" * 22, "weights": []},
        {"select_id": "A" * 22, "weights": [{"weight": "1", "blob": "AA"}]},
        {"select_id": "A" * 22, "weights": [{"weight": 1}]},
        {"select_id": "A" * 22, "weights": [{"weight": 1, "blob": "ä"}]},
        b'{"select_id":"AAAAAAAAAAAAAAAAAAAAAA","weights":[{"weight":1e999,"blob":"AA"}]}',
        b'{"select_id":"AAAAAAAAAAAAAAAAAAAAAA","weights":[{"weight":NaN,"blob":"AA"}]}',
    ],
)
async def test_offers_that_could_not_be_used_are_refused(answer: object) -> None:
    """Offers with a malformed select id, weight or blob are refused."""
    line = Line(OffersMessage.of(answer) if isinstance(answer, Offers) else answer)
    with pytest.raises(UnavailableError, match="does not match the order"):
        await line.children.select(WEST, select_order(), timeout_s=1.0)


async def test_outcomes_have_to_be_those_of_the_instances() -> None:
    """There must be one outcome for each instance, in order."""
    order = build_order(request_of(2), [b"a" * 300, b"b" * 300])
    first, second = (BuildOutcome(uuid) for uuid in order.request.instance_uuids)
    for said in [(first,), (second, first), (first, second, first), (first, BuildOutcome("x")), ()]:
        line = Line(OutcomesMessage.of("r-1", said))
        with pytest.raises(UnavailableError) as caught:
            await line.children.build(WEST, order, timeout_s=1.0)
        assert not isinstance(caught.value, NotAskedError)


async def test_a_flaw_that_there_is_not_is_refused() -> None:
    """An unknown reason in an outcome is refused."""
    order = build_order(request_of(), [b"a" * 300])
    said = {"uuid": order.request.instance_uuids[0], "flaw": "tired"}
    line = Line({"reservation_id": "r-1", "instances": [said]})
    with pytest.raises(UnavailableError, match="does not match the order"):
        await line.children.build(WEST, order, timeout_s=1.0)


async def test_a_zone_keeps_only_what_it_was_asked_about() -> None:
    """An answer that keeps an instance outside the order is refused."""
    order = ReleaseOrder("root", withdrawn=(Withdrawal("i-1", 5),))
    line = Line(KeptMessage(("i-1", "i-9")))
    with pytest.raises(UnavailableError, match="does not match the order"):
        await line.children.release(WEST, order, timeout_s=1.0)


@pytest.mark.parametrize("values", ["[1e999, 2]", "[null, 2]", "[1]", "[1, 2, 3]"])
async def test_ranges_are_two_numbers(values: str) -> None:
    """A range must consist of two finite numbers."""
    body = f'{{"zone":{{"name":"west","ranges":{{"free.VCPU":{values}}}}}}}'
    with pytest.raises(UnavailableError, match="does not match the order"):
        await Line(body.encode()).children.info(WEST, timeout_s=1.0)


@pytest.mark.parametrize("status", [199, 300, 302, 400, 401, 403, 404, 409, 413, 500, 501, 503])
async def test_another_status_is_an_error_that_tells_nothing_of_the_zone(status: int) -> None:
    """Another status raises an error without the answer's text."""
    line = Line({"forbidden": {"message": "host node-17 is full", "code": status}}, status)
    with pytest.raises(UnavailableError, match=f"^zone west answered {status}: ") as caught:
        await line.children.info(WEST, timeout_s=1.0)
    assert "node-17" not in str(caught.value)
    assert not isinstance(caught.value, NotAskedError)


async def test_more_fields_than_are_known_are_no_harm() -> None:
    """Unknown fields in an answer are ignored."""
    said = json.loads(msgspec.json.encode(OffersMessage.of(offers_of())))
    said |= {"new": {"deep": [1]}}
    said["weights"][0]["new"] = 1
    offers = await Line(said).children.select(WEST, select_order(), timeout_s=1.0)
    assert offers == offers_of()
