"""Middleware that counts, times and traces requests."""

from collections.abc import Awaitable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from berth.api.request_id import request_id_of
from berth.ports.clock import Clock
from berth.ports.measures import HTTP_REQUESTS, HTTP_SECONDS
from berth.ports.telemetry import Metrics, Tracer

ROUTE: Final = "berth.route"
"""Scope key of the request's path template, set once the route is known."""

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER: Final = "other"
_NS_PER_S: Final = 1_000_000_000


class Measured:
    """The outermost ASGI middleware, which counts and times requests.

    Requests are counted by method, route and status class, and timed by route. The route is the
    path template of the operation or, if there is none, `other`; this bounds the number of label
    values.

    Args:
        app: the application to measure.
        metrics: receives the counts and the durations.
        clock: measures the durations.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, clock: Clock) -> None:
        self._app = app
        self._metrics = metrics
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; count and time it after the response or a failure."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0

        def listen(message: Message) -> Awaitable[None]:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            return send(message)

        began_ns = self._clock.ticks_ns()
        try:
            await self._app(scope, receive, listen)
        finally:
            method, route = scope["method"], scope.get(ROUTE, _OTHER)
            # Unknown methods share one label, so clients cannot create arbitrarily many labels.
            labels = (method if method in _METHODS else _OTHER, route, f"{status // 100}xx")
            self._metrics.add(HTTP_REQUESTS, labels)
            seconds = (self._clock.ticks_ns() - began_ns) / _NS_PER_S
            self._metrics.observe(HTTP_SECONDS, seconds, (route,))


class Traced:
    """ASGI middleware that opens a span for each request, whose id `Front` must have assigned.

    Args:
        app: the application that handles the requests.
        tracer: records the spans.
    """

    def __init__(self, app: ASGIApp, tracer: Tracer) -> None:
        self._app = app
        self._tracer = tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on within a span that notes its method, id, route and status."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with self._tracer.span("http", request_id=request_id_of(scope), begins=True) as span:
            span.note("http.request.method", scope["method"][:20])
            span.note("berth.request_id", request_id_of(scope))

            def listen(message: Message) -> Awaitable[None]:
                if message["type"] == "http.response.start":
                    span.note("http.response.status_code", message["status"])
                return send(message)

            try:
                await self._app(scope, receive, listen)
            finally:
                span.note("http.route", scope.get(ROUTE, _OTHER))
