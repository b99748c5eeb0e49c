"""Health, readiness and metrics endpoints, for load balancers and monitoring."""

from typing import Final, Protocol

from starlette.types import ASGIApp, Receive, Scope, Send

from berth.api.answers import mark_begun, send_bytes, send_error
from berth.api.auth.authentication import Auth, credentials_of
from berth.api.callers import note_caller
from berth.api.codec import View, encode
from berth.api.errors import HttpError, get_only
from berth.api.observed import ROUTE
from berth.api.request_id import id_headers
from berth.ports.telemetry import Exposition

HEALTH: Final = "/healthz"
READINESS: Final = "/readyz"
METRICS: Final = "/metrics"


class Checks(Protocol):
    """Checks whether the process can do its work."""

    async def problems(self) -> list[str]:
        """Return the problems that make the process unready, in words that any client may read."""
        ...


class AlwaysReady:
    """Reports ready without checking anything."""

    async def problems(self) -> list[str]:
        """See `Checks.problems`."""
        return []


class Health(View):
    """The response of the health probe."""

    status: str


class Readiness(View):
    """The response of the readiness probe, with the problems that block the process."""

    status: str
    problems: tuple[str, ...]


async def readiness_of(checks: Checks) -> tuple[int, Readiness]:
    """Return the status (200 or 503) and the body of the readiness probe."""
    problems = tuple(await checks.problems())
    status = "not ready" if problems else "ready"
    return 503 if problems else 200, Readiness(status=status, problems=problems)


class MetricsPage:
    """An ASGI application that serves the process's metrics on every path.

    Args:
        exposition: renders the metrics.
        auth: identifies the caller, who must be an administrator; None to serve every client.
    """

    def __init__(self, exposition: Exposition, auth: Auth | None = None) -> None:
        self._exposition = exposition
        self._auth = auth

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Respond with the metrics, or with an error if the method or the caller is not allowed."""
        scope[ROUTE] = METRICS
        try:
            await self._admit(scope)
        except HttpError as error:
            await send_error(scope, send, error)
            return
        body = await self._exposition.expose()
        headers = [
            (b"content-type", self._exposition.content_type.encode()),
            (b"content-length", b"%d" % len(body)),
            *id_headers(scope),
        ]
        mark_begun(scope)
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _admit(self, scope: Scope) -> None:
        _check_method(scope)
        if self._auth is None:
            return
        caller = await self._auth.identify(credentials_of(scope))
        note_caller(scope, caller)
        if not caller.is_admin:
            raise HttpError(403, "Only administrators may read the metrics.")


class Probes:
    """An ASGI application that responds to the probes and passes other requests on.

    Args:
        app: handles all other requests.
        checks: reports whether the process is ready.
        page: serves the metrics, or None to leave `/metrics` to `app`.
    """

    def __init__(self, app: ASGIApp, checks: Checks, page: MetricsPage | None = None) -> None:
        self._checks = checks
        self._app = app
        self._pages: dict[str, ASGIApp] = {HEALTH: self._health, READINESS: self._readiness}
        if page is not None:
            self._pages[METRICS] = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a probe, or pass the request on."""
        page = self._pages.get(scope["path"]) if scope["type"] == "http" else None
        await (page or self._app)(scope, receive, send)

    async def _health(self, scope: Scope, _receive: Receive, send: Send) -> None:
        await self._answer(scope, send, 200, Health(status="ok"))

    async def _readiness(self, scope: Scope, _receive: Receive, send: Send) -> None:
        await self._answer(scope, send, *await readiness_of(self._checks))

    async def _answer(self, scope: Scope, send: Send, status: int, body: View) -> None:
        scope[ROUTE] = scope["path"]
        try:
            _check_method(scope)
        except HttpError as error:
            await send_error(scope, send, error)
        else:
            await send_bytes(scope, send, status, encode(body))


async def nothing_else(scope: Scope, _receive: Receive, send: Send) -> None:
    """Respond with 404 to any request, as the fallback where only probes are served."""
    if scope["type"] == "http":
        await send_error(scope, send, HttpError(404, "The resource could not be found."))


def _check_method(scope: Scope) -> None:
    if scope["method"] not in {"GET", "HEAD"}:
        raise get_only()
