"""Pieces that JSON Schemas are made of, and the patterns that clients are told."""

from collections.abc import Mapping
from typing import Any

from berth.api.placement.shapes import Shape, Steps

Json = dict[str, Any]

INT_MAX = 2_147_483_647
RATIO_MAX = 3.40282e38

UUID_KEY = "^[0-9a-fA-F-]{36}$"
NAME = "^[A-Z0-9_]+$"
"""Of a resource class, a trait or a type of consumers."""
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
    """Make an object of some properties, some of which must be there.

    Args:
        properties: schema by name.
        required: names that must be there.
        patterns: schema by a pattern of names.
        size_min: least number of properties.
        others: schema of all others, or whether they may be there.
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
    """Make a list of equal items."""
    schema: Json = {"type": "array", "items": item}
    if size_min:
        schema["minItems"] = size_min
    if is_unique:
        schema["uniqueItems"] = True
    return schema


def whole(minimum: int, maximum: int | None = INT_MAX) -> Json:
    """Make a whole number within limits."""
    schema: Json = {"type": "integer"}
    if maximum is not None:
        schema["maximum"] = maximum
    return {**schema, "minimum": minimum}


def text(length_max: int | None = None, length_min: int = 0, pattern: str = "") -> Json:
    """Make a text within lengths, of a pattern."""
    schema: Json = {"type": "string"}
    if pattern:
        schema["pattern"] = pattern
    if length_min:
        schema["minLength"] = length_min
    if length_max is not None:
        schema["maxLength"] = length_max
    return schema


def either(*schemas: Json) -> Json:
    """Make what one of several schemas accepts."""
    return {"anyOf": list(schemas)}


CLASS_NAME = Shape(obj({"name": text(255, pattern=CUSTOM_NAME)}, ("name",)))
"""Of `{"name": ...}`; for a class of the path, too."""


TRAIT_NAME = Shape(obj({"name": text(255, 1, CUSTOM_NAME)}, ("name",)))


POST_CLASS: Steps = ((2, CLASS_NAME),)


PUT_CLASS: Steps = ((2, CLASS_NAME),)
