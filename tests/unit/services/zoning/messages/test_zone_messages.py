"""Tests for the messages between zones."""

import json
from dataclasses import replace
from typing import TypeVar

import msgspec
import pytest

from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.errors import InvalidInputError
from berth.domain.zones.offer import OfferRefusalReason
from berth.domain.zones.zone_orders import (
    BuildItem,
    BuildOrder,
    BuildOutcome,
    Offers,
    ReleaseOrder,
    SelectOrder,
    UnusedOffers,
    Withdrawal,
)
from berth.services.crypto.base64url import url_text_of
from berth.services.zoning.messages.loop_tokens import LOOP_TOKEN_BYTES
from berth.services.zoning.messages.message_parts import SurplusMessage, bytes_of
from berth.services.zoning.messages.zone_messages import (
    BuildMessage,
    OffersMessage,
    OutcomesMessage,
    ReleaseMessage,
    SelectMessage,
)
from berth.services.zoning.offers.offer_seals import request_digest
from tests.unit.services.zoning.zone_harness import items_of, request_of

NOW_S = 1000.0
GROUP = ServerGroup("g", "name", GroupPolicy.ANTI_AFFINITY, "p", "u", 2, zone_id=3)


T = TypeVar("T")


def sent(message: T) -> T:
    """Return the message decoded from its JSON."""
    return msgspec.json.decode(msgspec.json.encode(message), type=type(message))


def test_a_select_arrives() -> None:
    """A select keeps its number of instances, its remaining time and the request's digest."""
    request = replace(
        request_of(3), hints={"a": ("1",)}, group_uuid="g", name="web", metadata={"tier": "db"}
    )
    order = SelectOrder(
        request,
        "root",
        NOW_S + 1.5,
        700,
        GROUP,
        hold=False,
        surplus=(UnusedOffers(b"s" * 16, 3),),
        marks=(b"m" * LOOP_TOKEN_BYTES,),
    )
    got = sent(SelectMessage.of(order, NOW_S)).order("root", 5000.0)
    assert len(got.request.instance_uuids) == 3
    assert got.deadline_s == 5001.5
    assert (got.audience, got.blob_bytes, got.hold) == ("root", 700, False)
    assert got.group == replace(GROUP, zone_id=None)
    assert (got.surplus, got.marks) == (order.surplus, order.marks)
    assert (got.request.name, got.request.metadata) == ("web", {"tier": "db"})
    assert request_digest(got.request) == request_digest(request)


def test_a_build_arrives_with_the_same_digest() -> None:
    """A build keeps the digest of the request."""
    request = request_of(2)
    items = tuple(replace(one, sent_ms=7) for one in items_of(request, [b"x" * 200, b"y" * 200]))
    got = sent(BuildMessage.of(BuildOrder(request, "root", items, GROUP))).order("root", NOW_S)
    assert request_digest(got.request) == request_digest(request)
    assert [one.blob for one in got.items] == [b"x" * 200, b"y" * 200]
    assert [one.instance.name for one in got.items] == ["vm-0", "vm-1"]
    assert [one.sent_ms for one in got.items] == [7, 7]


def test_a_parent_cannot_say_where_an_instance_is() -> None:
    """A build cannot set the host, status or revision of an instance."""
    request = request_of(1)
    (item,) = items_of(request, [b"x" * 200])
    odd = replace(item.instance, host="h", node="n", revision=9, alternates=(("h", "n"),))
    text = msgspec.json.encode(
        BuildMessage.of(BuildOrder(request, "root", (BuildItem(odd, b"x"),)))
    )
    fields = json.loads(text)
    fields["instances"][0] |= {"host": "h", "status": "ACTIVE", "revision": 9}
    got = msgspec.json.decode(json.dumps(fields), type=BuildMessage).order("root", NOW_S)
    instance = got.items[0].instance
    assert (instance.host, instance.revision, instance.alternates) == (None, 0, ())


def test_offers_outcomes_and_releases_arrive() -> None:
    """Offers, outcomes and releases are decoded unchanged."""
    offers = Offers(b"s" * 16, (0.5, 0.25), (b"a" * 200, b"b" * 200))
    assert sent(OffersMessage.of(offers)).offers == offers
    outcomes = (BuildOutcome("i"), BuildOutcome("j", OfferRefusalReason.GONE))
    assert sent(OutcomesMessage.of("r", outcomes)).outcomes == outcomes
    order = ReleaseOrder("root", (UnusedOffers(b"s" * 16, 3),), (Withdrawal("i", 7),), "p", True)
    assert sent(ReleaseMessage.of(order)).order("root", "p") == order


@pytest.mark.parametrize(
    "message",
    [
        {"num_instances": 0},
        {"num_instances": 10**6},
        {"deadline_ms": 0},
        {"deadline_ms": 10**9},
        {"blob_bytes": 1},
        {"blob_bytes": 10**6},
        {"marks": ("AAAA",)},
        {"marks": ("A" * 44,) * 65},
    ],
)
def test_what_is_out_of_bounds_is_named(message: dict[str, object]) -> None:
    """A value out of bounds is refused under its name."""
    good = SelectMessage.of(SelectOrder(request_of(1), "root", NOW_S + 1), NOW_S)
    (name,) = message
    with pytest.raises(InvalidInputError, match=name):
        replace(good, **message).order("root", NOW_S)  # type: ignore[arg-type]


def test_bytes_are_written_in_the_characters_of_urls() -> None:
    """Bytes are encoded as base64url, and other texts are refused."""
    assert bytes_of("blob", url_text_of(b"\xff\xfe\xfd")) == b"\xff\xfe\xfd"
    with pytest.raises(InvalidInputError):
        bytes_of("blob", "é")


def test_the_length_of_a_select_id_is_checked_apart_from_ranges() -> None:
    """A wrong length of a select id is reported as such."""
    with pytest.raises(InvalidInputError, match="select_id: must encode 16 bytes, not 12"):
        _ = SurplusMessage(url_text_of(b"s" * 12)).surplus
    order = SelectOrder(request_of(1), "root", NOW_S + 1)
    good = SelectMessage.of(order, NOW_S)
    with pytest.raises(InvalidInputError, match="marks: must have between 0 and 64 items, not 65"):
        replace(good, marks=("A" * 44,) * 65).order("root", NOW_S)
