"""JSON Schemas of bodies and queries, with their validators and optional fast checks."""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from jsonschema import Draft202012Validator, ValidationError, validators

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

Json = Mapping[str, Any]

# Bounds on errors: a body of a few megabytes can be wrong in a million places, and a message
# quotes the value.
_ERRORS_MAX = 1000
_SENTENCE_MAX = 1000


class Shape:
    """A JSON Schema with its compiled validator.

    Args:
        schema: a JSON Schema (2020-12). `format: uuid` accepts any form that Python's UUID
            accepts in a body, and only the dashed form in a query, as in the original.
        is_plain: fast hand-written check. It may return False for values that the schema
            accepts, but never True for values that the schema rejects.
        is_query: the values are the last query parameters by name.
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
        """Return jsonschema's description of what is wrong with a value, or None if it is valid.

        Clients match on these texts. The best match is chosen among the first 1,000 errors.

        Args:
            value: the value to validate.
            is_brief: leave out the schema and the value, and cut a long message; for a large
                value the full text would be several times its size.
        """
        # Imported lazily: jsonschema takes longer to load than the rest of the API, and valid
        # requests mostly pass the fast checks.
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
        """The validator, built at its first use."""
        if self._validator is None:
            from jsonschema import FormatChecker  # noqa: PLC0415

            # The original checks formats in bodies with its own uuid check, but queries with
            # jsonschema's, which is stricter.
            formats = FormatChecker(["uuid"]) if self._is_query else FormatChecker([])
            if not self._is_query:
                formats.checks("uuid")(is_uuid)
            self._validator = Validator(dict(self.schema), format_checker=formats)
        return self._validator


Steps = tuple[tuple[int, Shape], ...]
"""Shapes with the minor version each applies from, in ascending order."""


def shape_at(steps: Steps, minor: int) -> Shape:
    """Return the shape of a minor version, which must not be below the first step."""
    found = steps[0][1]
    for since, shape in steps[1:]:
        if since > minor:
            break
        found = shape
    return found


def is_uuid(value: object) -> bool:
    """Return whether a string is a uuid in any form that Python's `UUID` accepts.

    Dashes, braces and `urn:uuid:` are optional. Values of other types pass.
    """
    if not isinstance(value, str):
        return True  # a format applies to strings only; `type` rejects the others
    digits = value.replace("urn:", "").replace("uuid:", "").strip("{}").replace("-", "").lower()
    return len(digits) == 32 and not digits.strip("0123456789abcdef")  # noqa: PLR2004 - of a uuid


Json = Mapping[str, Any]


def _pattern(_: object, pattern: str, value: object, __: Json) -> Iterator[ValidationError]:
    """Check the `pattern` keyword, and refuse a trailing line feed, which Python's `$` allows."""
    if isinstance(value, str) and (value.endswith("\n") or not re.search(pattern, value)):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _unique_items(_: object, is_asked: bool, value: object, __: Json) -> Iterator[ValidationError]:  # noqa: FBT001, as jsonschema calls it
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
"""Validator class for JSON Schema 2020-12; `uniqueItems` compares strings only."""
