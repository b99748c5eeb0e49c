"""Shapes: what a body or a query may be, as a JSON Schema with a check that is prepared once."""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from jsonschema import Draft202012Validator, ValidationError, validators

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

Json = Mapping[str, Any]

_ERRORS_MAX = 1000
_SENTENCE_MAX = 1000


class Shape:
    """A JSON Schema with its prepared validator.

    Args:
        schema: of JSON Schema 2020-12. `format: uuid` is what Python takes for one in a body, and
            a dashed one in a query, as in the original.
        is_plain: tells of a value, by hand and fast, that the schema accepts it; it may say no to
            values that the schema accepts, and never yes to another.
        is_query: the values are the last parameters of a query, by name.
    """

    def __init__(
        self,
        schema: Json,
        *,
        is_plain: Callable[[object], bool] | None = None,
        is_query: bool = False,
    ) -> None:
        self.schema = schema
        self.is_plain = is_plain
        self._is_query = is_query
        self._validator: Draft202012Validator | None = None

    def problem_of(self, value: object, *, is_brief: bool = False) -> str | None:
        """Tell what is wrong with a value, in jsonschema's own words, which clients look at.

        None when nothing is. Of very many errors the first are compared for the one to be told.

        Args:
            value: to be looked at.
            is_brief: leave out schema and value, and the end of a long sentence; of a large value
                these would be far larger.
        """
        # Not at the top: it takes longer to load than all else here, and most requests need it not.
        from jsonschema import exceptions  # noqa: PLC0415

        errors = islice(cast("Any", self.validator).iter_errors(value), _ERRORS_MAX)
        error = cast("Any", exceptions).best_match(errors)
        if error is None:
            return None
        if is_brief:
            return f"{error.message[:_SENTENCE_MAX]}\n\nFailed validating {error.validator!r}"
        return str(error)

    @property
    def validator(self) -> "Draft202012Validator":
        """The validator, made at its first use."""
        if self._validator is None:
            from jsonschema import FormatChecker  # noqa: PLC0415

            formats = FormatChecker(["uuid"]) if self._is_query else FormatChecker([])
            if not self._is_query:
                formats.checks("uuid")(is_uuid)
            self._validator = Validator(dict(self.schema), format_checker=formats)
        return self._validator


Steps = tuple[tuple[int, Shape], ...]
"""Shapes by the minor version from which they count, in rising order."""


def shape_at(steps: Steps, minor: int) -> Shape:
    """Return the shape that counts in a minor version, which is not before the first step."""
    found = steps[0][1]
    for since, shape in steps[1:]:
        if since > minor:
            break
        found = shape
    return found


def is_uuid(value: object) -> bool:
    """Tell whether a text is a uuid in any writing, with dashes, braces, `urn:uuid:` or without."""
    if not isinstance(value, str):
        return True  # another keyword's business
    digits = value.replace("urn:", "").replace("uuid:", "").strip("{}").replace("-", "").lower()
    return len(digits) == 32 and not digits.strip("0123456789abcdef")  # noqa: PLR2004 - of a uuid


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
