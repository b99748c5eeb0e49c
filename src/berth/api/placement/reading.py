"""Decoding of bodies and queries, and validation against their schemas."""

import json
from collections.abc import Sequence
from typing import Any, cast
from urllib.parse import parse_qsl, quote

import msgspec
from starlette.types import Scope

from berth.api.placement.errors import PlacementError
from berth.api.placement.shapes import Shape

_FIELDS_MAX = 500
# An error for a body above this size (in bytes) leaves out the schema and the value, which
# jsonschema quotes; otherwise the response would be several times as large as the request.
_TOLD_WHOLE_MAX = 64 * 1024
# The ledger stores 64-bit integers.
_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
# The one number that need not be whole; its limit is the largest single-precision float.
_RATIO = "allocation_ratio"
_RATIO_MAX = 3.40282e38
_decode = msgspec.json.Decoder().decode


def body_of(raw: bytes, shape: Shape) -> Any:  # noqa: ANN401 - JSON, of any shape
    """Decode and validate a body; return plain JSON values.

    Bodies that pass the fast check of the shape skip the schema, which decides about all others.

    Args:
        raw: the body, whose nesting depth is already checked.
        shape: its schema.

    Raises:
        PlacementError: 400, the body is not JSON, does not match the schema, or cannot be stored.
    """
    try:
        data = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Clients see the error texts of the standard library's decoder. This decoder also accepts
        # some input that msgspec rejects (lone surrogates, 1e999); the checks below refuse such
        # input with their own texts.
        data = _slow_decode(raw)
    if shape.is_plain is not None and shape.is_plain(data):
        return data
    check(data, shape, is_brief=len(raw) > _TOLD_WHOLE_MAX)
    return _stored(data)


def check(value: object, shape: Shape, *, is_brief: bool = False) -> None:
    """Validate a value, for example the name in a path.

    Args:
        value: the value.
        shape: its schema.
        is_brief: whether to leave the value and the schema out of the error text.

    Raises:
        PlacementError: 400, with jsonschema's description of the problem.
    """
    problem = shape.problem_of(value, is_brief=is_brief)
    if problem is not None:
        raise PlacementError(400, f"JSON does not validate: {problem}")


def query_of(scope: Scope) -> list[tuple[str, str]]:
    """Return the query parameters in order, including repeated ones.

    Raises:
        PlacementError: 400, the query is not UTF-8, has too many parameters, or contains U+0000.
    """
    raw: bytes = scope["query_string"]
    if not raw:
        return []
    try:
        # A client should percent-encode bytes outside ASCII. They are encoded here for a client
        # that does not, so that the result is the same.
        text = raw.decode() if raw.isascii() else quote(raw, safe="%&=+;,:/!()*'$-_.~")
        items = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_FIELDS_MAX)
    except ValueError as error:
        raise PlacementError(400, f"Invalid query string parameters: {error}") from error
    if any("\0" in part for item in items for part in item):
        raise PlacementError(400, "Invalid query string parameters: U+0000 is not allowed")
    return items


def check_query(items: Sequence[tuple[str, str]], shape: Shape) -> None:
    """Validate a query; of repeated parameters only the last is validated.

    Raises:
        PlacementError: 400, with jsonschema's description of the problem.
    """
    values = dict(items)
    if shape.is_plain is not None and shape.is_plain(values):
        return
    problem = shape.problem_of(values)
    if problem is not None:
        raise PlacementError(400, f"Invalid query string parameters: {problem}")


def _slow_decode(raw: bytes) -> Any:  # noqa: ANN401 - JSON, of any shape
    """Decode JSON with the standard library, whose error texts clients see."""
    try:
        return json.loads(raw.decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise PlacementError(400, f"Malformed JSON: {error}") from error


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number in JSON")


def _stored(value: object) -> Any:  # noqa: ANN401 - JSON, of any shape
    """Return a copy of a value with whole numbers as ints; check that it can be stored.

    JSON Schema accepts 1.0 as an integer, and some numbers have no limits in the schemas.

    Raises:
        PlacementError: 400, a number does not fit into 64 bits, `allocation_ratio` is too low, a
            string contains U+0000 or a lone surrogate, or a key is not printable.
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
            reason = f"the key {key[:80]!r} has an unprintable character"
            raise PlacementError(400, f"JSON does not validate: {reason}")
    return {
        key: _ratio(item) if key == _RATIO and isinstance(item, int | float) else _stored(item)
        for key, item in value.items()
    }


def _check_text(text: str) -> None:
    if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise PlacementError(
            400, "JSON does not validate: a string contains U+0000 or a lone surrogate"
        )


def _whole(number: float) -> float:
    if not _INT_MIN <= number <= _INT_MAX:
        raise PlacementError(400, "JSON does not validate: a number does not fit into 64 bits")
    return int(number) if number == int(number) else number


def _ratio(number: float) -> float:
    if not -_RATIO_MAX <= number <= _RATIO_MAX:
        raise PlacementError(
            400, f"JSON does not validate: {_RATIO} must not be below {-_RATIO_MAX}"
        )
    return float(number)
