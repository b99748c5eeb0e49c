"""Where the client reached the API, for absolute links."""

import re

from starlette.types import Scope

from berth.api.header_fields import header_of

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
