"""The API as one ASGI application."""

from collections.abc import Sequence
from dataclasses import replace

from starlette.routing import Mount, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from berth import __version__
from berth.api import versions
from berth.api.answers import ErrorTeller, send_bytes, send_error
from berth.api.berth import routes as berth_room
from berth.api.codec import encode
from berth.api.compute import lifecycle_routes, side_routes
from berth.api.compute import routes as compute_room
from berth.api.compute.gaps import not_here
from berth.api.compute.handlers.servers.forwarding import over_tree
from berth.api.console_parts import NOVNC, ConsoleParts, novnc_files
from berth.api.console_socket import ConsoleSocket
from berth.api.errors import HttpError, get_only
from berth.api.front import Front
from berth.api.identity import routes as identity_room
from berth.api.identity.errors import send_refusal as tell_by_identity
from berth.api.images import routes as image_room
from berth.api.observed import Traced
from berth.api.openapi import openapi_document
from berth.api.parts import ApiParts
from berth.api.placement.app import Mounted, teller_of
from berth.api.placement.parts import PlacementParts
from berth.api.probes import METRICS
from berth.api.routing import ApiOperation, Microversions, Shortcuts, ends_of, not_found, routes_of
from berth.api.zones import routes as zone_room

__all__ = ["ApiParts", "build_app"]

_COMPUTE = over_tree(
    (
        *compute_room.OPERATIONS,
        *lifecycle_routes.OPERATIONS,
        *side_routes.OPERATIONS,
        *image_room.MIRRORED,
    )
)

OPERATIONS = (
    *versions.OPERATIONS,
    *_COMPUTE,
    *identity_room.OPERATIONS,
    *image_room.OPERATIONS,
    *berth_room.OPERATIONS,
    *zone_room.OPERATIONS,
)

_WITHOUT_IDENTITY = tuple(
    operation for operation in OPERATIONS if operation not in identity_room.OPERATIONS
)


def build_app(parts: ApiParts, placement: PlacementParts | None = None) -> ASGIApp:
    """Build the ASGI application of the API.

    A request passes `Front` (request id, size limits), the tracer if there is one, microversion
    negotiation in the compute API, the router of its API unless `Shortcuts` knows the path, and the
    endpoint of the path.

    Args:
        parts: dependencies of every API except Placement.
        placement: dependencies of the Placement API, or None to leave that API out.
    """
    parts = replace(parts, started_ns=parts.clock.ticks_ns())
    compute_routes = routes_of(parts, _COMPUTE, compute_room.PREFIX)
    berth_routes = routes_of(parts, berth_room.OPERATIONS, berth_room.PREFIX)
    compute = Router(compute_routes, redirect_slashes=False, default=not_here)
    berth = Router(berth_routes, redirect_slashes=False, default=not_found)
    public = routes_of(parts, versions.OPERATIONS)
    serves_identity = parts.keystone_url is None
    identity = identity_room.OPERATIONS if serves_identity else ()
    others = routes_of(parts, (*zone_room.OPERATIONS, *identity, *image_room.OPERATIONS))
    document = OPERATIONS if serves_identity else _WITHOUT_IDENTITY
    app: ASGIApp = Router(
        [
            *public,
            Mount(compute_room.PREFIX, Microversions(compute)),
            Mount(berth_room.PREFIX, berth),
            *others,
            Route("/openapi.json", _Document(document)),
            *_pages(parts.consoles),
        ],
        redirect_slashes=False,
        default=not_found if parts.keystone_url is None else _Elsewhere(parts.keystone_url),
    )
    # `Shortcuts` finds an endpoint with one dict lookup; Starlette's router would try its routes in
    # turn.
    ends: dict[str, ASGIApp] = {
        **ends_of(compute_routes, compute_room.PREFIX, Microversions),
        **ends_of(berth_routes, berth_room.PREFIX),
        **ends_of(others, ""),
    }
    if parts.page is not None:
        ends[METRICS] = parts.page
    app = Shortcuts(app, ends)
    if placement is not None:
        app = Mounted(app, placement)
    if parts.tracer is not None:
        app = Traced(app, parts.tracer)
    front = Front(app, parts.limits, parts.ids, parts.telemetry, teller_of=_teller_of)
    return ConsoleSocket(front, parts)


def _pages(consoles: ConsoleParts) -> tuple[Mount, ...]:
    """Return the route to the files of noVNC, if the API serves them."""
    folder = consoles.novnc_dir
    return () if folder is None else (Mount(NOVNC, novnc_files(folder)),)


def _teller_of(path: str) -> ErrorTeller | None:
    """Return the error format of a path, or None for the compute API's."""
    return tell_by_identity if _is_identity(path) else teller_of(path)


def _is_identity(path: str) -> bool:
    return path.startswith(f"{identity_room.PREFIX}/") or path == identity_room.PREFIX


class _Elsewhere:
    """Responds with 404 to unknown paths; for paths of the Identity API, names Keystone's URL.

    Args:
        keystone_url: the URL of the Keystone that serves the Identity API.
    """

    def __init__(self, keystone_url: str) -> None:
        self._error = HttpError(
            404, f"The Identity API is not served here but by Keystone, at {keystone_url}."
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the 404 response."""
        if scope["type"] == "http" and _is_identity(scope["path"]):
            await send_error(scope, send, self._error)
        else:
            await not_found(scope, receive, send)


class _Document:
    """Serves the OpenAPI document, generated on the first request."""

    def __init__(self, operations: Sequence[ApiOperation]) -> None:
        self._operations = operations
        self._body = b""

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Send the document."""
        if scope["method"] not in {"GET", "HEAD"}:
            error = get_only()
            await send_error(scope, send, error)
            return
        # Most processes never serve the document, so it is not generated at start-up.
        self._body = self._body or encode(openapi_document(self._operations, __version__))
        await send_bytes(scope, send, 200, self._body)
