"""Requests about allocations of consumers and usages, and requests to the reshaper."""

from urllib.parse import quote

from tests.differential.placement_writes.drawn import Drawn
from tests.differential.placement_writes.inventories import Json, inventories_of
from tests.differential.placement_writes.steps import Step
from tests.differential.placement_writes.universe import (
    CLASSES,
    CONSUMERS,
    PROJECTS,
    TYPES,
    UNKNOWN,
    USERS,
)

_OWNED, _KEYED, _COUNTED, _MAPPED, _TYPED = 8, 12, 28, 34, 38

Amounts = dict[str, dict[str, int]]


def put(drawn: Drawn) -> Step:
    """Draw a request that replaces the allocations of one consumer."""
    consumer = drawn.consumer()
    path = f"/allocations/{drawn.in_path(consumer)}"
    return Step("PUT", path, drawn.minor, claim_of(drawn, consumer))


def put_many(drawn: Drawn) -> Step:
    """Draw a request that replaces the allocations of one to three consumers."""
    consumers = drawn.draw.shuffled(CONSUMERS)[: drawn.draw.of((1, 2, 2, 3))]
    body = {uuid: claim_of(drawn, uuid, is_keyed=True) for uuid in consumers}
    return Step("POST", "/allocations", drawn.minor, body)


def free(drawn: Drawn) -> Step:
    """Draw a request that frees the allocations of a consumer."""
    return Step("DELETE", f"/allocations/{drawn.in_path(drawn.consumer())}", drawn.minor)


def show(drawn: Drawn) -> Step:
    """Draw a request for the allocations of a consumer."""
    return Step("GET", f"/allocations/{drawn.in_path(drawn.consumer())}", drawn.minor)


def usages(drawn: Drawn) -> Step:
    """Draw a request for the usages of a project."""
    draw = drawn.draw
    items = [("project_id", draw.of((*PROJECTS, *PROJECTS, _NOBODY)))]
    if draw.seldom(2):
        items.append(("user_id", draw.of(USERS)))
    if drawn.form >= _TYPED and draw.seldom(2):
        items.append(("consumer_type", draw.of((*TYPES, "all", "unknown", "NOBODYS", "allx"))))
    if draw.seldom(25):
        items = draw.of(([], [("project_id", "")], [*items, ("consumer", "x")], items[1:]))
    query = "&".join(f"{key}={quote(value)}" for key, value in items)
    return Step("GET", f"/usages?{query}", drawn.minor)


def reshape(drawn: Drawn) -> Step:
    """Draw a request that replaces inventories and allocations together."""
    draw = drawn.draw
    uuids = {drawn.provider() for _ in range(draw.of((1, 1, 2)))}
    inventories = {
        uuid: {
            "resource_provider_generation": drawn.seen(uuid),
            "inventories": inventories_of(drawn, uuid),
        }
        for uuid in sorted(uuids)
    }
    moved = draw.some(CONSUMERS, 2)
    allocations = {uuid: claim_of(drawn, uuid, is_keyed=True) for uuid in moved}
    body = {"inventories": inventories, "allocations": allocations}
    return Step("POST", "/reshaper", drawn.minor, body)


_NOBODY = "00000000-0000-0000-0000-000000000000"


def claim_of(drawn: Drawn, consumer: str, *, is_keyed: bool = False) -> Json:
    """Draw the allocations of a consumer, in the form of a microversion.

    Args:
        drawn: the random source and the state.
        consumer: the uuid of the consumer.
        is_keyed: whether providers are keys in every microversion.
    """
    draw, form = drawn.draw, drawn.form
    held = _amounts(drawn, consumer)
    if form < _KEYED and not is_keyed:
        body: Json = {
            "allocations": [
                {"resource_provider": {"uuid": uuid}, "resources": amounts}
                for uuid, amounts in (held or {UNKNOWN: {"VCPU": 1}}).items()
            ]
        }
        return {**body, **_owner(drawn)} if form >= _OWNED else body
    if (form >= _COUNTED or is_keyed) and draw.seldom(
        8 if consumer in drawn.state.holdings else 40
    ):
        held = {}
    told: Json = {
        "allocations": {uuid: {"resources": amounts} for uuid, amounts in held.items()},
        **_owner(drawn),
    }
    if form >= _COUNTED:
        told["consumer_generation"] = drawn.held(consumer)
    if form >= _MAPPED and draw.seldom(6):
        told["mappings"] = {draw.of(("", "1", "_NODE")): sorted(held) or [UNKNOWN]}
    if form >= _TYPED:
        told["consumer_type"] = draw.of(
            (*TYPES, "unknown", "A" * 255) if draw.seldom(20) else TYPES
        )
    return told


def _owner(drawn: Drawn) -> Json:
    draw = drawn.draw
    if draw.seldom(60):
        odd: object = draw.of(("", "p" * 255, "p" * 256, None, "\u00e9", 7))
        return {"project_id": odd, "user_id": USERS[0]}
    return {"project_id": draw.of(PROJECTS), "user_id": draw.of(USERS)}


def _amounts(drawn: Drawn, consumer: str) -> Amounts:
    """Draw amounts by provider, which mostly fit the free capacity."""
    draw, state = drawn.draw, drawn.state
    holding = state.holdings.get(consumer)
    has = {} if holding is None else holding.allocations
    found: Amounts = {}
    giving = [uuid for uuid, one in state.providers.items() if one.inventories]
    for _ in range(draw.of((1, 1, 1, 2))):
        uuid = draw.of(giving) if giving and not draw.seldom(20) else drawn.provider()
        here = state.providers.get(uuid)
        mine = sorted(here.inventories) if here is not None and here.inventories else CLASSES
        names = draw.shuffled(CLASSES if draw.seldom(40) else mine)[: draw.of((1, 1, 2))]
        amounts: dict[str, int] = {}
        for name in names:
            room = state.room(uuid, name, has.get(uuid, {}).get(name, 0))
            fits = bool(room) and not draw.seldom(15)
            amounts[name] = draw.of(room) if fits else draw.count(1, 14)
        found[uuid] = amounts
    return found
