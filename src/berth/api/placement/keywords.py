"""The JSON Schema validator, with replacements for two keywords that clients could abuse.

The validator's error texts are those of jsonschema. This is a separate module because jsonschema
takes longer to load than the rest of the API, and valid requests rarely need it.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from jsonschema import Draft202012Validator, ValidationError, validators

Json = Mapping[str, Any]


def _pattern(_: object, pattern: str, value: object, __: Json) -> Iterator[ValidationError]:
    """Check the `pattern` keyword, and refuse a trailing line feed, which Python's `$` allows."""
    if isinstance(value, str) and (value.endswith("\n") or not re.search(pattern, value)):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _unique_items(_: object, is_asked: bool, value: object, __: Json) -> Iterator[ValidationError]:  # noqa: FBT001 - jsonschema calls it
    """Check `uniqueItems` among strings only, by hash.

    jsonschema falls back to comparing every pair if a list contains an unhashable item, which is
    quadratic in the size of the body.
    """
    if not is_asked or not isinstance(value, list):
        return
    texts = [item for item in cast("list[object]", value) if isinstance(item, str)]
    if len(set(texts)) < len(texts):
        yield ValidationError(f"{value!r} has non-unique elements")


Validator: Final[type[Draft202012Validator]] = cast("Any", validators).extend(
    Draft202012Validator, {"pattern": _pattern, "uniqueItems": _unique_items}
)
"""Validator class for JSON Schema 2020-12, with the two keywords replaced."""
