"""JSON Schemas of bodies and queries, with their validators and optional fast checks."""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

Json = Mapping[str, Any]

# The first limit bounds the errors that are compared, since a large body can be wrong in a million
# places. The second bounds the characters of a brief message, since a message quotes the value.
_ERRORS_MAX = 1000
_SENTENCE_MAX = 1000


class Shape:
    """A JSON Schema with its compiled validator.

    Args:
        schema: a JSON Schema (2020-12). `format: uuid` accepts any form that Python's UUID
            accepts in a body, and only the dashed form in a query, as in Placement.
        is_plain: fast hand-written check. It may return False for values that the schema
            accepts, but never True for values that the schema rejects.
        is_query: whether the values to validate are queries: the last value of each parameter by
            name.
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
        """Return jsonschema's description of the error in a value, or None if the value is valid.

        Clients match on these texts. Of several errors jsonschema's best match is described.

        Args:
            value: the value to validate.
            is_brief: whether to leave out the schema and the value, and to cut a long message; for
                a large value the full text would be several times its size.
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
        """The validator, built on first use."""
        if self._validator is None:
            from jsonschema import FormatChecker  # noqa: PLC0415

            from berth.api.placement.keywords import Validator  # noqa: PLC0415

            # Placement checks uuids in bodies with a check of its own, and those in queries with
            # jsonschema's, which is stricter.
            formats = FormatChecker(["uuid"]) if self._is_query else FormatChecker([])
            if not self._is_query:
                formats.checks("uuid")(is_uuid)
            self._validator = Validator(dict(self.schema), format_checker=formats)
        return self._validator


Steps = tuple[tuple[int, Shape], ...]
"""Shapes, each with the minor version from which it applies, in ascending order."""


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

    Dashes, braces and `urn:uuid:` are optional. The result is True for values of other types.
    """
    if not isinstance(value, str):
        return True  # a format applies to strings only; `type` rejects the others
    digits = value.replace("urn:", "").replace("uuid:", "").strip("{}").replace("-", "").lower()
    return len(digits) == 32 and not digits.strip("0123456789abcdef")  # noqa: PLR2004 - digits of a uuid
