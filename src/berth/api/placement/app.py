"""The Placement API as an ASGI application, standalone or mounted next to Berth's other APIs."""

from starlette.types import ASGIApp, Receive, Scope, Send

from berth.api.answers import ErrorTeller
from berth.api.front import Front
from berth.api.observed import Traced
from berth.api.placement.answers import send_refusal
from berth.api.placement.dispatch import Dispatcher
from berth.api.placement.parts import PlacementParts
from berth.api.placement.routes import ACTIONS, PREFIX
from berth.api.probes import Probes


def build_placement_app(parts: PlacementParts) -> ASGIApp:
    """Return the application for a process without any other API, mounted at the root.

    The probes share the root, since no Placement path collides with theirs.
    """
    app: ASGIApp = Probes(Dispatcher(parts, ACTIONS), parts.checks, parts.page)
    if parts.tracer is not None:
        app = Traced(app, parts.tracer)
    return Front(app, parts.limits, parts.ids, parts.telemetry, teller_of=lambda _: send_refusal)


class Mounted:
    """ASGI application that serves the Placement API under a prefix and delegates the rest.

    Args:
        app: receives all other requests.
        parts: dependencies of the Placement API; their `prefix` must be `PREFIX`.
    """

    def __init__(self, app: ASGIApp, parts: PlacementParts) -> None:
        self._app = app
        self._placement = Dispatcher(parts, ACTIONS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Route the request to the Placement API or to the wrapped application."""
        is_here = scope["type"] == "http" and is_placement(scope["path"])
        await (self._placement if is_here else self._app)(scope, receive, send)


def is_placement(path: str) -> bool:
    """Return whether a path belongs to the Placement API in a process with several APIs."""
    return path.startswith(PREFIX) and path[len(PREFIX) :][:1] in {"", "/"}


def teller_of(path: str) -> ErrorTeller | None:
    """Return the error writer for a path in a process with several APIs; None for the default."""
    return send_refusal if is_placement(path) else None
