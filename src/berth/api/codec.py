"""JSON decoding and encoding with msgspec, and the base classes of request and response bodies."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

from berth.domain.errors import InvalidInputError

__all__ = [
    "UNSET",
    "Meta",
    "Model",
    "Name",
    "UnsetType",
    "View",
    "convert",
    "decode",
    "encode",
    "encode_text",
    "field",
    "schemas_of",
]

T = TypeVar("T")

_WHERE = re.compile(r"(?s)(?P<reason>.*) - at `(?P<key>key` in `)?\$(?P<path>[^`]*)`")
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_encoder = msgspec.json.Encoder()
_decoders: dict[object, msgspec.json.Decoder[Any]] = {}

_VISIBLE = "^[^\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029]+$"
_VISIBLE_TOLD = repr(_VISIBLE)[1:-1]
# Python's `$` also matches before a trailing line feed; the lookahead below rejects that. The
# published schema omits the lookahead, since JSON Schema's `$` matches only the end.
Name = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=255,
        pattern=_VISIBLE + "(?!\\n)",
        extra_json_schema={"pattern": _VISIBLE},
    ),
]
"""A name of 1 to 255 characters, none of which is a control character or a line separator."""


class Model(Struct, kw_only=True, forbid_unknown_fields=True):
    """A request body or query. Decoding rejects unknown fields."""


class View(Struct, kw_only=True):
    """A response body. Fields that are UNSET are omitted."""


def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    # Building a decoder costs more than decoding a typical body.
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    return decoder


def encode(value: object) -> bytes:
    """Return a value as JSON bytes."""
    return _encoder.encode(value)


def encode_text(value: object) -> str:
    """Return a value as a JSON string."""
    return _encoder.encode(value).decode()


def decode(body: bytes, kind: type[T]) -> T:
    """Decode a JSON document to a value of the given type.

    Raises:
        InvalidInputError: the document is not valid JSON, contains U+0000, or does not fit the
            type; the error names the field that does not fit.
    """
    # PostgreSQL cannot store U+0000 in text, so the API refuses it with every ledger. The substring
    # test avoids the regular expression for nearly all bodies.
    if b"\\u0000" in body and _NUL.search(body):
        raise InvalidInputError("body", "must not contain the character U+0000")
    try:
        return _decoder(kind).decode(body)
    except msgspec.ValidationError as error:
        raise _invalid(str(error), "body") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInputError("body", f"is not valid JSON: {error}") from error


def convert(values: Mapping[str, str], kind: type[T], where: str) -> T:
    """Convert strings, such as query parameters, to a value of the given type.

    Args:
        values: the strings by field name.
        kind: the type.
        where: the field that the error names if no single field is invalid.

    Raises:
        InvalidInputError: the strings do not fit the type; the error names the field.
    """
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid(str(error), where) from error


def schemas_of(kinds: list[type], ref_template: str) -> tuple[list[Any], dict[str, Any]]:
    """Return the JSON Schema of each type, and the schemas that these refer to, by name."""
    schemas, components = msgspec.json.schema_components(
        kinds, ref_template=ref_template, schema_hook=_anything
    )
    return list(schemas), components


def _anything(kind: type) -> dict[str, Any]:
    """Return the JSON Schema of `object`, which stands for any JSON value."""
    if kind is not object:
        raise NotImplementedError(f"there is no JSON Schema for {kind}")
    return {"description": "Any JSON value."}


def _invalid(message: str, where: str) -> InvalidInputError:
    found = _WHERE.fullmatch(message)
    if found is None:
        return InvalidInputError(where, message)
    path = found["path"].lstrip(".") or where
    # msgspec's message would quote the whole pattern, which explains nothing to a client.
    reason = "must not contain control characters" if _VISIBLE_TOLD in message else found["reason"]
    return InvalidInputError(path, f"a key is invalid ({reason})" if found["key"] else reason)
