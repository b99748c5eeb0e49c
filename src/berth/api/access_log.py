"""The access log: one line for each request, and one for each failed login."""

from typing import Final

from starlette.types import Scope

from berth.api.callers import address_of, attempted_login, caller_of_request
from berth.api.observed import OTHER_ROUTE, ROUTE
from berth.api.probes import HEALTH, METRICS, READINESS
from berth.api.request_id import global_request_id, known_request_id
from berth.ports.telemetry import Telemetry

_READS: Final = frozenset({"GET", "HEAD"})
_PROBES: Final = frozenset({HEALTH, READINESS, METRICS})
_NS_PER_MS: Final = 1_000_000
_PATH_MAX: Final = 300
_METHOD_MAX: Final = 20
_UNAUTHORIZED: Final = 401
_TOO_MANY: Final = 429
# The random digits of a request id that decide whether a sampled line is written.
_DIGITS: Final = slice(4, 12)
_DIGITS_RANGE: Final = 16**8


class AccessLog:
    """Logs each request as `http_request`, and each failed login as `login_failed`.

    A line has the path but not the query, which may contain secrets. Successful probes and reads
    of metrics are not logged.

    Args:
        telemetry: receives the lines.
        sample_reads: the share of the successful GET and HEAD requests that are logged. The id of
            the request decides, so lines of one request are logged together.
    """

    def __init__(self, telemetry: Telemetry, *, sample_reads: float = 1.0) -> None:
        self._telemetry = telemetry
        self._read_limit = int(sample_reads * _DIGITS_RANGE)

    def ended(self, scope: Scope, status: int, duration_ns: int) -> None:
        """See `RequestWatcher.ended`."""
        request_id, route = known_request_id(scope), scope.get(ROUTE, OTHER_ROUTE)
        if (
            0 < status < 400  # noqa: PLR2004 - the statuses of success
            and scope["method"] in _READS
            and (route in _PROBES or not self._is_sampled(request_id))
        ):
            return
        caller = caller_of_request(scope)
        fields: dict[str, object] = {
            "method": scope["method"][:_METHOD_MAX],
            "route": route,
            "path": scope["path"][:_PATH_MAX],
            "status": status,
            "duration_ms": round(duration_ns / _NS_PER_MS, 2),
            "address": address_of(scope),
            "request_id": request_id,
        }
        if caller is not None:
            fields["user_id"], fields["project_id"] = caller.user_id, caller.project_id
            if caller.parent is not None:
                fields["parent_zone"] = caller.parent
        if (from_caller := global_request_id(scope)) is not None:
            fields["global_request_id"] = from_caller
        self._telemetry.event("http_request", **fields)
        if caller is None and status in {_UNAUTHORIZED, _TOO_MANY}:
            self._note_failed_login(scope, status, request_id)

    def _is_sampled(self, request_id: str | None) -> bool:
        if self._read_limit == _DIGITS_RANGE or request_id is None:
            return True
        return int(request_id[_DIGITS], 16) < self._read_limit

    def _note_failed_login(self, scope: Scope, status: int, request_id: str | None) -> None:
        attempt = attempted_login(scope)
        if attempt is None:
            # Clients send their first request without credentials, and learn from the 401 which
            # ones are needed.
            return
        credential, user = attempt
        self._telemetry.warning(
            "login_failed",
            credential=credential,
            user_id=user,
            reason="rejected" if status == _UNAUTHORIZED else "too_many_failures",
            address=address_of(scope),
            request_id=request_id,
        )
