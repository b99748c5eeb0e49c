"""JSON Schema as jsonschema checks it, but for two keywords that would let clients do harm.

It says what jsonschema says, in the same words. Loaded with jsonschema, which takes long.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from jsonschema import Draft202012Validator, ValidationError, validators

Json = Mapping[str, Any]


def _pattern(_: object, pattern: str, value: object, __: Json) -> Iterator[ValidationError]:
    """Refuse a line feed at the end, too, before which `$` stands in Python."""
    if isinstance(value, str) and (value.endswith("\n") or not re.search(pattern, value)):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _unique_items(_: object, is_asked: bool, value: object, __: Json) -> Iterator[ValidationError]:  # noqa: FBT001, as jsonschema calls it
    """Compare texts only, by their hashes; jsonschema compares each pair as soon as one is none."""
    if not is_asked or not isinstance(value, list):
        return
    texts = [item for item in cast("list[object]", value) if isinstance(item, str)]
    if len(set(texts)) < len(texts):
        yield ValidationError(f"{value!r} has non-unique elements")


Validator: Final[type[Draft202012Validator]] = cast("Any", validators).extend(
    Draft202012Validator, {"pattern": _pattern, "uniqueItems": _unique_items}
)
"""Of JSON Schema 2020-12. `uniqueItems` is for lists of texts."""
