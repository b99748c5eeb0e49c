"""Header fields of a request, indexed once per request, and the URL that the client used."""

import re
from collections.abc import Mapping
from typing import Final

from starlette.types import Scope

FORCE_HEADER: Final = "X-Berth-Force"
"""The header with which an administrator overrides a safety check.

It allows evacuations from hosts that may be up, and changes that leave servers outside the
availability zones to which they are bound.
"""

_SCOPE_KEY = "berth.fields"


def fields_of(scope: Scope) -> Mapping[bytes, bytes]:
    """Return the header fields by lower-case name; of fields with the same name, the first."""
    fields: Mapping[bytes, bytes] | None = scope.get(_SCOPE_KEY)
    if fields is None:
        # dict() keeps the last of repeated fields, so the order is reversed.
        fields = scope[_SCOPE_KEY] = dict(reversed(scope["headers"]))
    return fields


def header_of(scope: Scope, name: bytes) -> str | None:
    """Return the value of a header field, given in lower case, or None when it is absent."""
    value = fields_of(scope).get(name)
    return None if value is None else value.decode("latin-1")


# Berth builds links from the host and the prefix, which clients can choose through headers.
# Characters other than the following could inject markup.
_HOST = re.compile(r"[A-Za-z0-9._~\-\[\]:]{1,255}")
_PREFIX = re.compile(r"(/[A-Za-z0-9._~\-]+)+/?")


def root_url(scope: Scope) -> str:
    """Return the URL under which the client reached the API, without a trailing slash.

    The first values of X-Forwarded-Proto, X-Forwarded-Host and X-Forwarded-Prefix take precedence,
    because proxies set them. The address of the listening socket replaces a missing or malformed
    host, and `http` replaces an unknown scheme; a malformed prefix is ignored.
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
