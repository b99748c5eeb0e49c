"""An id for every request, told in its answer and in whatever is logged about it."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from berth.api.errors import NOTHING_SAID, HttpError, send_error
from berth.ports.clock import Ids
from berth.ports.telemetry import Telemetry

_SCOPE_KEY = "berth.request_id"


def request_id_of(scope: Scope) -> str:
    """Return the id of a request."""
    request_id: str = scope[_SCOPE_KEY]
    return request_id


def rename_request(scope: Scope, request_id: str) -> None:
    """Give a request the id of the one that it repeats; its answer carries that id."""
    scope[_SCOPE_KEY] = request_id


class RequestIds:
    """ASGI middleware, the outermost: names each request and answers for what else fails."""

    def __init__(self, app: ASGIApp, ids: Ids, telemetry: Telemetry) -> None:
        self._app = app
        self._ids = ids
        self._telemetry = telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with an id; an unexpected failure is told and answered with 500."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope[_SCOPE_KEY] = self._ids.request_id()
        started = False

        async def send_with_id(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                told = request_id_of(scope).encode()
                message["headers"].append((b"x-openstack-request-id", told))
                message["headers"].append((b"x-compute-request-id", told))
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except Exception as error:
            self._telemetry.failure(
                "http_request_failed",
                error,
                request_id=request_id_of(scope),
                method=scope["method"],
                path=scope["path"],
            )
            if started:
                raise  # the server cuts the connection, so that nobody takes half for all
            await send_error(send_with_id, HttpError(500, NOTHING_SAID))
