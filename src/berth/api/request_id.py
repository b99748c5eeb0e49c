"""An id for every request, told in its answer and in whatever is logged about it."""

import re
from typing import Final

from starlette.types import Scope

from berth.api.errors import Header
from berth.ports.bus import CONTEXT, Context

_SCOPE_KEY = "berth.request_id"
_TRACE: Final = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


def request_id_of(scope: Scope) -> str:
    """Return the id of a request."""
    request_id: str = scope[_SCOPE_KEY]
    return request_id


def name_request(scope: Scope, request_id: str) -> None:
    """Give a request its id; the one that it repeats gives it that of its own later.

    What is done for it elsewhere is done in its name, and in its caller's trace.
    """
    trace = CONTEXT.get().traceparent if _SCOPE_KEY in scope else _trace_of(scope)
    scope[_SCOPE_KEY] = request_id
    CONTEXT.set(Context(request_id, None, trace))


def id_headers(scope: Scope) -> tuple[Header, ...]:
    """Return what an answer tells of the id; nothing before the request has one."""
    request_id: str | None = scope.get(_SCOPE_KEY)
    if request_id is None:
        return ()
    told = request_id.encode()
    return (b"x-openstack-request-id", told), (b"x-compute-request-id", told)


def _trace_of(scope: Scope) -> str | None:
    """Return the caller's `traceparent` (W3C Trace Context); what is none counts for nothing."""
    for name, value in scope["headers"]:
        if name == b"traceparent":
            return value.decode() if _TRACE.fullmatch(value) else None
    return None
