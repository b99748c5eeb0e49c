"""Bodies and queries, read and held against their shapes."""

import json
from collections.abc import Sequence
from typing import Any, cast
from urllib.parse import parse_qsl, quote

import msgspec
from starlette.types import Scope

from berth.api.placement.errors import PlacementError
from berth.api.placement.shapes import Shape

_FIELDS_MAX = 500
_TOLD_WHOLE_MAX = 64 * 1024
"""Bytes of a body that is told in full when it is wrong."""
_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
_RATIO = "allocation_ratio"
"""The one number that need not be whole, and may be larger."""
_RATIO_MAX = 3.40282e38
_decode = msgspec.json.Decoder().decode


def body_of(raw: bytes, shape: Shape) -> Any:  # noqa: ANN401 - JSON, of any shape
    """Read a body as plain JSON values.

    What is surely right goes through quickly; all else is looked at with the schema, which has the
    last word.

    Args:
        raw: the body, whose depth is checked.
        shape: what it may be.

    Raises:
        PlacementError: 400, it is not JSON, or not of this shape, or nothing that can be stored.
    """
    try:
        data = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        data = _slow_decode(raw)
    if shape.is_plain is not None and shape.is_plain(data):
        return data
    check(data, shape, is_brief=len(raw) > _TOLD_WHOLE_MAX)
    return _stored(data)


def check(value: object, shape: Shape, *, is_brief: bool = False) -> None:
    """Hold a value against a shape, the name in a path, say.

    Args:
        value: to be looked at.
        shape: what it may be.
        is_brief: tell what is wrong without the value.

    Raises:
        PlacementError: 400, with what is wrong in jsonschema's words.
    """
    problem = shape.problem_of(value, is_brief=is_brief)
    if problem is not None:
        raise PlacementError(400, f"JSON does not validate: {problem}")


def query_of(scope: Scope) -> list[tuple[str, str]]:
    """Read the parameters of the query, in order; repeated ones stay.

    Raises:
        PlacementError: 400, it is not UTF-8, or holds too many parameters or U+0000.
    """
    raw: bytes = scope["query_string"]
    if not raw:
        return []
    try:
        # What is not ASCII should have been quoted, and is when everybody else has read it.
        text = raw.decode() if raw.isascii() else quote(raw, safe="%&=+;,:/!()*'$-_.~")
        items = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_FIELDS_MAX)
    except ValueError as error:
        raise PlacementError(400, f"Invalid query string parameters: {error}") from error
    if any("\0" in part for item in items for part in item):
        raise PlacementError(400, "Invalid query string parameters: they must not hold U+0000")
    return items


def check_query(items: Sequence[tuple[str, str]], shape: Shape) -> None:
    """Hold a query against a shape; of repeated parameters the last is looked at.

    Raises:
        PlacementError: 400, with what is wrong in jsonschema's words.
    """
    values = dict(items)
    if shape.is_plain is not None and shape.is_plain(values):
        return
    problem = shape.problem_of(values)
    if problem is not None:
        raise PlacementError(400, f"Invalid query string parameters: {problem}")


def _slow_decode(raw: bytes) -> Any:  # noqa: ANN401 - JSON, of any shape
    """Read JSON with the standard library, for its words about what is wrong."""
    try:
        return json.loads(raw.decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise PlacementError(400, f"Malformed JSON: {error}") from error


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _stored(value: object) -> Any:  # noqa: ANN401 - JSON, of any shape
    """Return a value as it can be stored: whole numbers as ints of 64 bits, texts in UTF-8.

    A schema takes 1.0 for an integer, and has no limits for some numbers.
    """
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, dict):
        return _stored_object(cast("dict[str, object]", value))
    elif isinstance(value, list):
        return [_stored(item) for item in cast("list[object]", value)]
    elif isinstance(value, int | float) and not isinstance(value, bool):
        return _whole(value)
    return value


def _stored_object(value: dict[str, object]) -> dict[str, Any]:
    for key in value:
        _check_text(key)
        if not key.isprintable():
            raise PlacementError(400, "JSON does not validate: a key holds a control character")
    return {
        key: _ratio(item) if key == _RATIO and isinstance(item, int | float) else _stored(item)
        for key, item in value.items()
    }


def _check_text(text: str) -> None:
    if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise PlacementError(400, "JSON does not validate: a text holds U+0000 or half a character")


def _whole(number: float) -> float:
    if not _INT_MIN <= number <= _INT_MAX:
        raise PlacementError(400, "JSON does not validate: a number has more than 64 bits")
    return int(number) if number == int(number) else number


def _ratio(number: float) -> float:
    if not -_RATIO_MAX <= number <= _RATIO_MAX:
        raise PlacementError(400, f"JSON does not validate: {_RATIO} is below {-_RATIO_MAX}")
    return float(number)
