"""Strict conversion of JSON files to domain values; errors name the path of the wrong field."""

import dataclasses
import types
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from berth.config.spelling import nearest
from berth.domain.errors import InvalidInputError

T = TypeVar("T")

# msgspec's errors contain the path only in their message, in this form.
_PATH_MARK = " - at `$"


def read_json(path: Path) -> object:
    """Return the content of a JSON file.

    Raises:
        InvalidInputError: the file cannot be read or is not JSON.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        reason = f"cannot be read ({error.strerror}); check the path"
        raise InvalidInputError(str(path), reason) from error
    try:
        return cast("object", msgspec.json.decode(content))
    # A deeply nested document exceeds the decoder's recursion limit.
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInputError(str(path), f"is not valid JSON: {error}") from error


def convert_strictly(document: object, kind: type[T], source: str) -> T:
    """Convert a parsed document to a dataclass; refuse unknown fields.

    Raises:
        InvalidInputError: the document is invalid; the error names the path of the first problem.
    """
    # msgspec ignores unknown fields of dataclasses (only its own structs can forbid them), and a
    # misspelt optional field would silently have no effect.
    for path, node, noun in _nodes(document, kind, ""):
        known = [field.name for field in dataclasses.fields(noun)]
        for name in node:
            if name not in known:
                where = f"{path}.{name}" if path else name
                reason = f"there is no such field; {nearest(name, known)}"
                raise InvalidInputError(f"{source}: {where}", reason)
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(_PATH_MARK)
        where = place.rstrip("`").removeprefix(".")
        raise InvalidInputError(f"{source}: {where}" if where else source, reason) from error
    except InvalidInputError as error:
        raise _located(document, kind, source, error) from error


def _located(
    document: object, kind: type, source: str, error: InvalidInputError
) -> InvalidInputError:
    """Return an error with the path of the object whose own validation failed.

    msgspec passes exceptions from `__post_init__` through without a path, so each object is
    converted again by itself, innermost first.
    """
    for path, node, noun in _nodes(document, kind, ""):
        try:
            msgspec.convert(node, noun)
        except InvalidInputError as inner:
            where = f"{path}.{inner.field}" if path else inner.field
            return InvalidInputError(f"{source}: {where}", inner.reason)
    return InvalidInputError(f"{source}: {error.field}", error.reason)


_Node = tuple[str, dict[str, object], type]


def _nodes(value: object, kind: object, path: str) -> Iterator[_Node]:
    """Yield path, object and class of every dataclass in a document, innermost first."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        for arm in args:
            yield from _nodes(value, arm, path)
    elif isinstance(kind, type) and dataclasses.is_dataclass(kind):
        if isinstance(value, dict):
            node = cast("dict[str, object]", value)
            for name, hint in _hints(kind).items():
                yield from _nodes(node.get(name), hint, f"{path}.{name}" if path else name)
            yield path, node, kind
    elif origin in (tuple, frozenset) and isinstance(value, list):
        for index, item in enumerate(cast("list[object]", value)):
            yield from _nodes(item, args[0], f"{path}[{index}]")
    elif origin is Mapping and isinstance(value, dict):
        for name, item in cast("dict[str, object]", value).items():
            yield from _nodes(item, args[1], f"{path}.{name}")


@cache
def _hints(kind: type) -> dict[str, object]:
    return get_type_hints(kind)
