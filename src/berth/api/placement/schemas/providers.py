"""Schemas of the bodies for resource providers, inventories, aggregates and traits."""

from berth.api.placement.schemas.building import (
    GENERATION,
    NAME,
    RATIO_MAX,
    UUID,
    Json,
    either,
    listed,
    obj,
    text,
    whole,
)
from berth.api.placement.schemas.plainness import is_plain_inventories
from berth.api.placement.shapes import Shape, Steps

_NAME = text(200)
_PARENT = {"parent_provider_uuid": either(UUID, {"type": "null"})}
_GENERATION = {"resource_provider_generation": GENERATION}

_AMOUNTS: Json = {
    "total": whole(1),
    "reserved": whole(0),
    "min_unit": whole(1),
    "max_unit": whole(1),
    "step_size": whole(1),
    # Placement sets no minimum, so negative ratios pass.
    "allocation_ratio": {"type": "number", "maximum": RATIO_MAX},
}
_RECORD = obj({**_GENERATION, **_AMOUNTS}, ("total",))

INVENTORIES = obj(
    {
        **_GENERATION,
        # An invalid class name is refused later as an unknown class, after the generation is
        # checked. Its value is validated here; otherwise malformed data would pass under such a
        # key.
        "inventories": obj(patterns={NAME: _RECORD}, others=_RECORD),
    },
    ("resource_provider_generation", "inventories"),
)

POST_PROVIDER: Steps = (
    (0, Shape(obj({"name": _NAME, "uuid": UUID}, ("name",)))),
    (14, Shape(obj({"name": _NAME, "uuid": UUID, **_PARENT}, ("name",)))),
)
PUT_PROVIDER: Steps = (
    (0, Shape(obj({"name": _NAME}, ("name",)))),
    (14, Shape(obj({"name": _NAME, **_PARENT}, ("name",)))),
)

PUT_INVENTORIES: Steps = ((0, Shape(INVENTORIES, is_plain=is_plain_inventories)),)
POST_INVENTORY: Steps = (
    (
        0,
        Shape(
            obj(
                {**_GENERATION, **_AMOUNTS, "resource_class": text(pattern=NAME)},
                ("total", "resource_class"),
            )
        ),
    ),
)
PUT_INVENTORY: Steps = (
    (0, Shape(obj({**_GENERATION, **_AMOUNTS}, ("total", "resource_provider_generation")))),
)

_AGGREGATES = listed(UUID, is_unique=True)
PUT_AGGREGATES: Steps = (
    (1, Shape(_AGGREGATES)),
    (
        19,
        Shape(
            obj(
                {"aggregates": _AGGREGATES, **_GENERATION},
                ("aggregates", "resource_provider_generation"),
            )
        ),
    ),
)

PUT_TRAITS: Steps = (
    (
        6,
        Shape(
            obj(
                {"traits": listed(text(255, 1)), **_GENERATION},
                ("traits", "resource_provider_generation"),
            )
        ),
    ),
)
