"""The Placement API as an ASGI application, alone or beside the others."""

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
    """Build the application for a server that has no other API; it is at the root.

    The probes are beside it, since no path of Placement's own is like theirs.
    """
    app: ASGIApp = Probes(Dispatcher(parts, ACTIONS), parts.checks, parts.page)
    if parts.tracer is not None:
        app = Traced(app, parts.tracer)
    return Front(app, parts.limits, parts.ids, parts.telemetry, teller_of=lambda _: send_refusal)


class Mounted:
    """An ASGI application with the Placement API beside it, under a path of its own.

    Args:
        app: where all other requests go.
        parts: of the Placement API; `prefix` is that path.
    """

    def __init__(self, app: ASGIApp, parts: PlacementParts) -> None:
        self._app = app
        self._placement = Dispatcher(parts, ACTIONS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        is_here = scope["type"] == "http" and is_placement(scope["path"])
        await (self._placement if is_here else self._app)(scope, receive, send)


def is_placement(path: str) -> bool:
    """Tell whether a path leads to the Placement API in a server that has others, too."""
    return path.startswith(PREFIX) and path[len(PREFIX) :][:1] in {"", "/"}


def teller_of(path: str) -> ErrorTeller | None:
    """Return who tells the errors of a path in a server that has other APIs, too."""
    return send_refusal if is_placement(path) else None
