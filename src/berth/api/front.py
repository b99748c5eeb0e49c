"""Middleware that assigns request ids, enforces limits, and handles unexpected errors."""

from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from berth.api.answers import ErrorTeller, has_begun, send_error, tell_errors_by
from berth.api.errors import NOTHING_SAID, HttpError
from berth.api.limits import RequestLimits, refusal_of
from berth.api.request_id import name_request, request_id_of
from berth.ports.clock import Ids
from berth.ports.telemetry import Telemetry


class Front:
    """The ASGI middleware around all routers of the API.

    Args:
        app: the application that handles the request.
        limits: maximum sizes of a request.
        ids: generates request ids.
        telemetry: logs failures.
        teller_of: returns the error format of a path, or None for the compute API's.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: RequestLimits,
        ids: Ids,
        telemetry: Telemetry,
        *,
        teller_of: Callable[[str], ErrorTeller | None] | None = None,
    ) -> None:
        self._app = app
        self._limits = limits
        self._ids = ids
        self._telemetry = telemetry
        self._teller_of = teller_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with an id, or respond with 414 or 431.

        An unexpected error is logged. It results in a 500 or, if the response has started, is
        raised again.
        """
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # The id comes first, so that even a refused request can be found in the log.
        name_request(scope, self._ids.request_id())
        teller = self._teller_of(scope["path"]) if self._teller_of else None
        if teller is not None:
            tell_errors_by(scope, teller)
        try:
            refusal = refusal_of(scope, self._limits)
            if refusal is None:
                await self._app(scope, receive, send)
            else:
                await send_error(scope, send, refusal)
        except Exception as error:
            self._telemetry.failure(
                "http_request_failed",
                error,
                request_id=request_id_of(scope),
                method=scope["method"],
                path=scope["path"],
            )
            if has_begun(scope):
                # A second response is impossible. Raising makes the server close the connection, so
                # the client does not mistake a partial body for the whole.
                raise
            await send_error(scope, send, HttpError(500, NOTHING_SAID))
