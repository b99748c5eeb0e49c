"""Cross-origin resource sharing (CORS) for the origins that the operator has configured."""

from collections.abc import Sequence

from starlette.types import Scope

from berth.api.errors import Header
from berth.api.header_fields import header_of

_ANY = "*"
_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "DELETE", "TRACE"})
# Request headers that every allowed origin may send without configuration.
_SIMPLE = frozenset(
    {
        "accept",
        "accept-language",
        "cache-control",
        "content-language",
        "content-type",
        "expires",
        "last-modified",
        "pragma",
    }
)
_EXPOSED = b"openstack-api-version, location, x-openstack-request-id"
_MAX_AGE_S = b"3600"
_VARY: Header = (b"vary", b"origin")


class Cors:
    """Builds the CORS headers of responses.

    Args:
        origins: scheme, host and port of each allowed origin, or `*` for all.
        headers: request headers that are allowed besides the default ones.
    """

    def __init__(self, origins: Sequence[str], headers: Sequence[str]) -> None:
        self._origins = frozenset(origins)
        self._headers = _SIMPLE | {name.lower() for name in headers}

    def plain(self, scope: Scope) -> tuple[Header, ...]:
        """Return the CORS headers of a normal response; none if the origin is not allowed."""
        allowed = self._allowed(scope)
        return (*allowed, (b"access-control-expose-headers", _EXPOSED)) if allowed else ()

    def preflight(self, scope: Scope) -> tuple[Header, ...]:
        """Return the CORS headers of a preflight response; none if the request is not allowed."""
        method = header_of(scope, b"access-control-request-method")
        names = header_of(scope, b"access-control-request-headers") or ""
        wanted = [name.strip() for name in names.split(",") if name.strip()]
        is_known = all(name.lower() in self._headers for name in wanted)
        allowed = self._allowed(scope)
        if not allowed or method not in _METHODS or not is_known:
            return ()
        headers = [
            *allowed,
            (b"access-control-max-age", _MAX_AGE_S),
            (b"access-control-allow-methods", method.encode()),
        ]
        if wanted:
            wanted_names = ",".join(wanted).encode("latin-1")
            headers.append((b"access-control-allow-headers", wanted_names))
        return tuple(headers)

    def _allowed(self, scope: Scope) -> tuple[Header, ...]:
        origin = header_of(scope, b"origin")
        # A listed origin takes precedence over `*`, since only it may send credentials. `vary`
        # keeps caches from serving one origin's response to another.
        if origin is not None and origin in self._origins:
            allowed = (b"access-control-allow-origin", origin.encode("latin-1"))
            return (_VARY, allowed, (b"access-control-allow-credentials", b"true"))
        if origin is not None and _ANY in self._origins:
            # The response has no allow-credentials header: browsers reject it together with the
            # wildcard, because it would let any site use a signed-in user's credentials.
            return (_VARY, (b"access-control-allow-origin", b"*"))
        return ()
