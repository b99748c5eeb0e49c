"""The header fields of a request, looked through once."""

import re
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


_HOST = re.compile(r"[A-Za-z0-9._~\-\[\]:]{1,255}")


_PREFIX = re.compile(r"(/[A-Za-z0-9._~\-]+)+/?")


def root_url(scope: Scope) -> str:
    """Return the URL under which the client reached the API, without a slash at the end.

    X-Forwarded-Proto, -Host and -Prefix count, as proxies set them; what is not well-formed is
    ignored.
    """
    host = _first(header_of(scope, b"x-forwarded-host")) or header_of(scope, b"host") or ""
    if _HOST.fullmatch(host) is None:
        address, port = scope.get("server") or ("localhost", None)
        host = f"{address}:{port}" if port else address
    scheme = (_first(header_of(scope, b"x-forwarded-proto")) or scope["scheme"]).lower()
    if scheme not in {"http", "https"}:
        scheme = "http"
    prefix = _first(header_of(scope, b"x-forwarded-prefix")) or ""
    if prefix and _PREFIX.fullmatch(prefix) is None:
        prefix = ""
    mounted = scope.get("app_root_path", scope.get("root_path", ""))
    return f"{scheme}://{host}{prefix.rstrip('/')}{mounted}"


def _first(value: str | None) -> str | None:
    return value.partition(",")[0].strip() if value else None
