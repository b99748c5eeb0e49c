"""Request ids: assigned to each request, returned in its response, and logged with it."""

import re
from typing import Final

from starlette.types import Scope

from berth.api.errors import Header
from berth.api.header_fields import fields_of
from berth.ports.bus import CONTEXT, Context

_SCOPE_KEY = "berth.request_id"
_GLOBAL: Final = re.compile(rb"req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TRACE: Final = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


def request_id_of(scope: Scope) -> str:
    """Return the id of a request."""
    request_id: str = scope[_SCOPE_KEY]
    return request_id


def name_request(scope: Scope, request_id: str) -> None:
    """Set the id of a request.

    This is called twice for a request that repeats an earlier one: on arrival, and then with the id
    of the earlier request. Bus messages sent for the request carry its id and the trace of the
    caller.
    """
    trace = CONTEXT.get().traceparent if _SCOPE_KEY in scope else _trace_of(scope)
    scope[_SCOPE_KEY] = request_id
    CONTEXT.set(Context(request_id, None, trace))


def known_request_id(scope: Scope) -> str | None:
    """Return the id of a request, or None if it has none yet."""
    return scope.get(_SCOPE_KEY)


def global_request_id(scope: Scope) -> str | None:
    """Return the id that the caller sent in `X-OpenStack-Request-ID`, or None.

    Other OpenStack services send in it the id of the request that made them call. Only an id of
    the usual form is returned.
    """
    value = fields_of(scope).get(b"x-openstack-request-id")
    return value.decode() if value is not None and _GLOBAL.fullmatch(value) else None


def id_headers(scope: Scope) -> tuple[Header, ...]:
    """Return the request id headers of a response; an empty tuple if the id is not yet set."""
    request_id: str | None = scope.get(_SCOPE_KEY)
    if request_id is None:
        return ()
    value = request_id.encode()
    return (b"x-openstack-request-id", value), (b"x-compute-request-id", value)


def _trace_of(scope: Scope) -> str | None:
    """Return the caller's `traceparent` (W3C Trace Context), or None if absent or malformed."""
    for name, value in scope["headers"]:
        if name == b"traceparent":
            return value.decode() if _TRACE.fullmatch(value) else None
    return None
