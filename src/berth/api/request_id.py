"""An id for every request, told in its answer and in whatever is logged about it."""

from starlette.types import Scope

from berth.api.errors import Header

_SCOPE_KEY = "berth.request_id"


def request_id_of(scope: Scope) -> str:
    """Return the id of a request."""
    request_id: str = scope[_SCOPE_KEY]
    return request_id


def name_request(scope: Scope, request_id: str) -> None:
    """Give a request its id; the one that it repeats gives it that of its own later."""
    scope[_SCOPE_KEY] = request_id


def id_headers(scope: Scope) -> tuple[Header, ...]:
    """Return what an answer tells of the id; nothing before the request has one."""
    request_id: str | None = scope.get(_SCOPE_KEY)
    if request_id is None:
        return ()
    told = request_id.encode()
    return (b"x-openstack-request-id", told), (b"x-compute-request-id", told)
