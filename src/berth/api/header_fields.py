"""The header fields of a request, looked through once."""

from collections.abc import Mapping

from starlette.types import Scope

_SCOPE_KEY = "berth.fields"


def fields_of(scope: Scope) -> Mapping[bytes, bytes]:
    """Return the header fields by name in lower case; of several with one name the first."""
    fields: Mapping[bytes, bytes] | None = scope.get(_SCOPE_KEY)
    if fields is None:
        fields = scope[_SCOPE_KEY] = dict(reversed(scope["headers"]))
    return fields


def header_of(scope: Scope, name: bytes) -> str | None:
    """Return a header field, by its name in lower case."""
    value = fields_of(scope).get(name)
    return None if value is None else value.decode("latin-1")
