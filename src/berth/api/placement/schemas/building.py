"""Builders of JSON Schemas, and the patterns that they share.

Error texts quote the patterns and depend on the order of the keywords, so both are Placement's.
"""

from collections.abc import Mapping
from typing import Any

from berth.api.placement.shapes import Shape, Steps

Json = dict[str, Any]

# Limits of Placement's database columns: 32-bit integers and single-precision floats.
INT_MAX = 2_147_483_647
RATIO_MAX = 3.40282e38

UUID_KEY = "^[0-9a-fA-F-]{36}$"
NAME = "^[A-Z0-9_]+$"
"""Name of a resource class, a trait or a consumer type."""
CUSTOM_NAME = "^CUSTOM_[A-Z0-9_]+$"

GENERATION: Json = {"type": "integer"}
UUID: Json = {"type": "string", "format": "uuid"}


def obj(
    properties: Mapping[str, Json] | None = None,
    required: tuple[str, ...] = (),
    *,
    patterns: Mapping[str, Json] | None = None,
    size_min: int = 0,
    others: Json | bool = False,
) -> Json:
    """Return the schema of an object.

    Args:
        properties: schemas by property name.
        required: names of the required properties.
        patterns: schemas by regular expression on the property name.
        size_min: minimum number of properties.
        others: schema of all other properties, or whether they are allowed.
    """
    schema: Json = {"type": "object"}
    if properties:
        schema["properties"] = dict(properties)
    if size_min:
        schema["minProperties"] = size_min
    if patterns:
        schema["patternProperties"] = dict(patterns)
    if required:
        schema["required"] = list(required)
    if others is not True:
        schema["additionalProperties"] = others
    return schema


def listed(item: Json, *, size_min: int = 0, is_unique: bool = False) -> Json:
    """Return the schema of an array whose items all have the same schema."""
    schema: Json = {"type": "array", "items": item}
    if size_min:
        schema["minItems"] = size_min
    if is_unique:
        schema["uniqueItems"] = True
    return schema


def whole(minimum: int, maximum: int | None = INT_MAX) -> Json:
    """Return the schema of an integer between two inclusive limits; None sets no maximum."""
    schema: Json = {"type": "integer"}
    if maximum is not None:
        schema["maximum"] = maximum
    return {**schema, "minimum": minimum}


def text(length_max: int | None = None, length_min: int = 0, pattern: str = "") -> Json:
    """Return the schema of a string with limits on its length and an optional pattern."""
    schema: Json = {"type": "string"}
    if pattern:
        schema["pattern"] = pattern
    if length_min:
        schema["minLength"] = length_min
    if length_max is not None:
        schema["maxLength"] = length_max
    return schema


def either(*schemas: Json) -> Json:
    """Return the schema of a value that matches any of several schemas."""
    return {"anyOf": list(schemas)}


CLASS_NAME = Shape(obj({"name": text(255, pattern=CUSTOM_NAME)}, ("name",)))
"""Shape of `{"name": ...}`; also validates a class name from the path."""

TRAIT_NAME = Shape(obj({"name": text(255, 1, CUSTOM_NAME)}, ("name",)))
"""Shape that validates a trait name from the path, as `{"name": ...}`."""

POST_CLASS: Steps = ((2, CLASS_NAME),)
PUT_CLASS: Steps = ((2, CLASS_NAME),)
