"""Request dispatch, which checks each request in Placement's order and calls its handler."""

from collections.abc import Iterable, Mapping

from starlette.types import Receive, Scope, Send

from berth.api.answers import tell_errors_by
from berth.api.header_fields import header_of
from berth.api.limits import check_depth, read_body
from berth.api.observed import ROUTE
from berth.api.placement.actions import PUBLIC, PlacementCall, PlacementRoute
from berth.api.placement.answers import (
    JSON,
    NO_TYPE,
    allow_origin,
    liking,
    media_type_of,
    send_empty,
    send_refusal,
    send_reply,
)
from berth.api.placement.errors import PlacementError, refusal_of
from berth.api.placement.parts import PlacementParts
from berth.api.placement.policy import NOBODY, PlacementCaller, caller_of
from berth.api.placement.reading import body_of, check_query, query_of
from berth.api.placement.shapes import shape_at
from berth.api.placement.versions import negotiate, set_minor
from berth.domain.errors import BerthError

# The longest path parameter that is routed. It is longer than any valid name, so that handlers can
# report why a name is invalid; a longer one gets a plain 404.
_KEY_MAX = 1024

_OPTIONS = "OPTIONS"
# Clients read the versions document before they authenticate.
_PUBLIC_PATHS = frozenset({"", "/"})


class Dispatcher:
    """The Placement API as an ASGI application.

    Args:
        parts: dependencies of the handlers.
        actions: all routes.
    """

    def __init__(self, parts: PlacementParts, actions: Iterable[PlacementRoute]) -> None:
        self._parts = parts
        self._matcher = Matcher(actions)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; errors that clients must not see propagate to the caller."""
        tell_errors_by(scope, send_refusal)
        cors = self._parts.cors
        # Browsers send preflight requests without credentials, so these are answered before
        # authentication.
        if cors is not None and scope["method"] == _OPTIONS:
            allow_origin(scope, cors.preflight(scope))
            await send_empty(scope, send)
            return
        # The headers are stored before any check, since scripts can read an error only if it
        # carries them.
        if cors is not None:
            allow_origin(scope, cors.plain(scope))
        try:
            ask = await self._ask(scope, receive)
            reply = await ask.action.handler(ask)
        except BerthError as error:
            refusal = refusal_of(error)
            if refusal is None:
                raise
            await send_refusal(scope, send, refusal)
            return
        await send_reply(scope, send, ask.action, reply, self._parts.clock.now_s())

    async def _ask(self, scope: Scope, receive: Receive) -> PlacementCall:
        # The order of the checks is Placement's, whose middleware runs outside in: identity,
        # version, content headers, route, media types, policy, body, query. A request that fails
        # several checks must get the same error from Berth and from Placement.
        path = scope["path"].removeprefix(self._parts.prefix)
        caller = NOBODY
        if path not in _PUBLIC_PATHS:
            caller = await caller_of(self._parts.auth, scope)
        minor = negotiate(scope["headers"])
        set_minor(scope, minor)
        _check_length(scope)
        action = self._action(scope, path, minor)
        _check_types(scope, action)
        query = query_of(scope) if action.project_in else []
        self._check_rule(action, caller, query)
        if action.asks is not None and not action.project_in:
            query = query_of(scope)
        ask = PlacementCall(self._parts, action, scope, caller, minor, None, query)
        if action.takes is not None:
            raw = await read_body(scope, receive, self._parts.limits)
            check_depth(raw, self._parts.limits.json_depth_max)
            try:
                ask = ask._replace(data=body_of(raw, shape_at(action.takes, minor)))
            except PlacementError:
                # Placement looks up the provider before it validates the body, so a missing
                # provider is reported first. Only failed requests pay for the extra lookup.
                if action.subject is not None:
                    await action.subject(ask)
                raise
        if action.asks is not None:
            check_query(query, shape_at(action.asks, minor))
        return ask

    def _action(self, scope: Scope, path: str, minor: int) -> PlacementRoute:
        found = self._matcher.find(path)
        if found is None:
            raise PlacementError(404, "")
        methods, scope["path_params"] = found
        scope[ROUTE] = self._parts.prefix + next(iter(methods.values()))[0].path
        actions = methods.get(scope["method"])
        if actions is None:
            raise _not_allowed({"allow": ", ".join(methods)})
        # Routes exist in some microversions only; `missing` is Placement's status in the others.
        for action in actions:
            if action.since <= minor <= action.until:
                return action
        if actions[0].missing == 404:  # noqa: PLR2004 - the usual status
            raise PlacementError(404, "")
        raise PlacementError(405, "")

    def _check_rule(
        self, action: PlacementRoute, caller: PlacementCaller, query: list[tuple[str, str]]
    ) -> None:
        if action.rule == PUBLIC:
            return
        target = None
        if action.project_in:
            # Without the parameter no project matches. Administrators pass the rule nevertheless,
            # and get the schema's error for the missing parameter.
            named = [value for key, value in query if key == action.project_in]
            target = {"project_id": named[-1]} if named else {}
        if not self._parts.policy.allows(action.rule, caller, target):
            raise PlacementError(403, f"Policy does not allow {action.rule} to be performed.")


def _not_allowed(headers: dict[str, str]) -> PlacementError:
    text = "The method specified is not allowed for this resource."
    return PlacementError(405, text, headers=headers)


def _check_length(scope: Scope) -> None:
    length = header_of(scope, b"content-length")
    if not length:
        return
    if not (length.isascii() and length.strip().isdigit()):
        raise PlacementError(400, "content-length header must be an integer")
    if length.strip("0 ") and media_type_of(scope) == NO_TYPE:
        raise PlacementError(400, "content-type header required when content-length > 0")


def _check_types(scope: Scope, action: PlacementRoute) -> None:
    if action.takes is not None:
        media_type = media_type_of(scope)
        if media_type != JSON:
            raise PlacementError(415, f"The media type {media_type} is not supported, use {JSON}")
    if action.shows and not liking(header_of(scope, b"accept"), JSON):
        raise PlacementError(406, f"Only {JSON} is provided")


Methods = Mapping[str, tuple[PlacementRoute, ...]]
"""The routes of one path by method; those of one method are in ascending order of versions."""


class Matcher:
    """Finds the routes of a path by hash lookup.

    Args:
        actions: all routes. Paths with the same number of segments must have their parameters
            at the same positions.

    Raises:
        ValueError: two paths of equal length have parameters at different positions.
    """

    def __init__(self, actions: Iterable[PlacementRoute]) -> None:
        self._keys_at: dict[int, tuple[int, ...]] = {}
        self._found: dict[
            tuple[str, ...], tuple[tuple[str, ...], dict[str, tuple[PlacementRoute, ...]]]
        ]
        self._found = {}
        for action in actions:
            parts = action.path.split("/")
            places = tuple(place for place, part in enumerate(parts) if part.startswith("{"))
            if self._keys_at.setdefault(len(parts), places) != places:
                raise ValueError(
                    f"{action.path} has its parameters at other positions than the other paths "
                    "with as many segments"
                )
            names = tuple(parts[place].strip("{}") for place in places)
            _, methods = self._found.setdefault(_fixed(parts, places), (names, {}))
            methods[action.method] = (*methods.get(action.method, ()), action)

    def find(self, path: str) -> tuple[Methods, dict[str, str]] | None:
        """Return the routes of a path by method, and its path parameters by name.

        Returns None if no route has the path, or if a parameter is empty, too long or not
        printable.
        """
        parts = path.split("/")
        places = self._keys_at.get(len(parts))
        found = None if places is None else self._found.get(_fixed(parts, places))
        if places is None or found is None:
            return None
        names, methods = found
        keys = [parts[place] for place in places]
        if not all(0 < len(key) <= _KEY_MAX and key.isprintable() for key in keys):
            return None
        return methods, dict(zip(names, keys, strict=True))


def _fixed(parts: list[str], places: tuple[int, ...]) -> tuple[str, ...]:
    return tuple("" if place in places else part for place, part in enumerate(parts))
