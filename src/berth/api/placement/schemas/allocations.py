"""Schemas of allocation bodies: for one consumer, for several, and in a reshape."""

from berth.api.placement.schemas.building import (
    GENERATION,
    NAME,
    UUID,
    UUID_KEY,
    Json,
    listed,
    obj,
    text,
    whole,
)
from berth.api.placement.schemas.plainness import PlainClaim, PlainClaims, PlainReshape
from berth.api.placement.schemas.providers import INVENTORIES
from berth.api.placement.shapes import Shape, Steps


def _required_last(schema: Json) -> Json:
    """Move `required` to the end of a schema.

    jsonschema checks keywords in order, so unexpected names are reported before missing ones, as
    in Placement.
    """
    return dict(sorted(schema.items(), key=lambda item: item[0] == "required"))


_RESOURCES = obj(patterns={NAME: whole(1, None)}, size_min=1)
_OWNER = {"project_id": text(255, 1), "user_id": text(255, 1)}
_OWNER_NAMES = tuple(_OWNER)


def _listed(owner: Json) -> Json:
    """Return the body schema before 1.12: a list of providers."""
    provider = _required_last(obj({"uuid": UUID}, ("uuid",)))
    item = obj(
        {"resource_provider": provider, "resources": _RESOURCES}, ("resource_provider", "resources")
    )
    properties = {"allocations": listed(item, size_min=1), **owner}
    return obj(properties, tuple(properties))


def _keyed(required: Json, optional: Json | None = None, *, size_min: int = 0) -> Json:
    """Return the schema from microversion 1.12 on: allocations by provider, and the consumer."""
    # Clients write back what GET returned, so the provider's generation is accepted and ignored.
    held = obj({"generation": GENERATION, "resources": _RESOURCES}, ("resources",))
    allocations = obj(patterns={UUID_KEY: held}, size_min=size_min)
    properties = {"allocations": allocations, **_OWNER, **required, **(optional or {})}
    return _required_last(obj(properties, ("allocations", *_OWNER_NAMES, *required)))


_SEEN: Json = {"consumer_generation": {"type": ["integer", "null"]}}
# Clients copy `mappings` from an allocation candidate; it is validated but not stored. Placement's
# pattern is unanchored, so any key that contains a valid suffix passes.
_MAPPINGS: Json = {
    "mappings": obj(
        patterns={"[a-zA-Z0-9_-]{1,64}": listed(UUID, size_min=1)}, size_min=1, others=True
    )
}
_TYPE: Json = {"consumer_type": text(255, 1, NAME)}

_AT_13 = _keyed({})
_AT_28 = _keyed(_SEEN)
_AT_34 = _keyed(_SEEN, _MAPPINGS)
_AT_38 = _keyed({**_SEEN, **_TYPE}, _MAPPINGS)

_PLAIN_AT_13 = PlainClaim()
_PLAIN_AT_28 = PlainClaim(has_generation=True)
_PLAIN_AT_34 = PlainClaim(has_generation=True, has_mappings=True)
_PLAIN_AT_38 = PlainClaim(has_generation=True, has_mappings=True, has_type=True)

PUT_ALLOCATIONS: Steps = (
    (0, Shape(_listed({}))),
    (8, Shape(_listed(_OWNER))),
    # An empty set of allocations is refused before 1.28, which allows it in place of DELETE.
    (12, Shape(_keyed({}, size_min=1), is_plain=PlainClaim(size_min=1))),
    (28, Shape(_AT_28, is_plain=_PLAIN_AT_28)),
    (34, Shape(_AT_34, is_plain=_PLAIN_AT_34)),
    (38, Shape(_AT_38, is_plain=_PLAIN_AT_38)),
)


def _together(one: Json, size_min: int) -> Json:
    return obj(patterns={UUID_KEY: one}, size_min=size_min)


POST_ALLOCATIONS: Steps = tuple(
    (since, Shape(_together(one, 1), is_plain=PlainClaims(plain, 1)))
    for since, one, plain in (
        (13, _AT_13, _PLAIN_AT_13),
        (28, _AT_28, _PLAIN_AT_28),
        (34, _AT_34, _PLAIN_AT_34),
        (38, _AT_38, _PLAIN_AT_38),
    )
)


def _reshape(one: Json) -> Json:
    inventories = obj(patterns={UUID_KEY: INVENTORIES}, size_min=1)
    properties = {"inventories": inventories, "allocations": _together(one, 0)}
    return obj(properties, tuple(properties))


POST_RESHAPER: Steps = tuple(
    (since, Shape(_reshape(one), is_plain=PlainReshape(PlainClaims(plain, 0))))
    for since, one, plain in (
        (30, _AT_28, _PLAIN_AT_28),
        (34, _AT_34, _PLAIN_AT_34),
        (38, _AT_38, _PLAIN_AT_38),
    )
)
