"""Middleware that observes, counts, times and traces requests."""

from collections.abc import Awaitable, Sequence
from typing import Final, Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from berth.api.request_id import request_id_of
from berth.ports.clock import Clock
from berth.ports.measures import HTTP_REQUESTS, HTTP_SECONDS
from berth.ports.telemetry import Metrics, Tracer

ROUTE: Final = "berth.route"
"""Scope key of the request's path template, set once the route is known."""

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER_ROUTE: Final = "other"
"""The route of requests whose path no operation has."""
_NOT_IMPLEMENTED: Final = 501
_NS_PER_S: Final = 1_000_000_000


class RequestWatcher(Protocol):
    """Receives each request that has ended."""

    def ended(self, scope: Scope, status: int, duration_ns: int) -> None:
        """Take note of a request; this must neither wait nor fail.

        Args:
            scope: the request, with what the application has stored in it.
            status: the status of the response; 0 if there was none.
            duration_ns: the time until the end of the response, in nanoseconds.
        """
        ...


class Observed:
    """The outermost ASGI middleware, which tells watchers of each request that has ended.

    Args:
        app: the application to observe.
        clock: measures the durations.
        watchers: are told of each request, in this order.
    """

    def __init__(self, app: ASGIApp, clock: Clock, watchers: Sequence[RequestWatcher]) -> None:
        self._app = app
        self._clock = clock
        self._watchers = watchers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; tell the watchers after the response or a failure."""
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
            duration_ns = self._clock.ticks_ns() - began_ns
            for watcher in self._watchers:
                watcher.ended(scope, status, duration_ns)


class RequestMetrics:
    """Counts and times requests.

    Requests are counted by method, route and status class (or 501), and timed by route. The route
    is the path template of the operation or, if there is none, `other`; this bounds the number of
    label values.

    Args:
        metrics: receives the counts and the durations.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def ended(self, scope: Scope, status: int, duration_ns: int) -> None:
        """See `RequestWatcher.ended`."""
        method, route = scope["method"], scope.get(ROUTE, OTHER_ROUTE)
        # Unknown methods share one label, so clients cannot create arbitrarily many labels.
        labels = (method if method in _METHODS else OTHER_ROUTE, route, _class_of(status))
        self._metrics.add(HTTP_REQUESTS, labels)
        self._metrics.observe(HTTP_SECONDS, duration_ns / _NS_PER_S, (route,))


def _class_of(status: int) -> str:
    """Return the label of a status: its class, but 501 itself.

    Calls of features that Berth does not have must not look like failures.
    """
    return str(status) if status == _NOT_IMPLEMENTED else f"{status // 100}xx"


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
                span.note("http.route", scope.get(ROUTE, OTHER_ROUTE))
