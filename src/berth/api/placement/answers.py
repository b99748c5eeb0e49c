"""Responses of the Placement API: headers, error formats, and content negotiation."""

from collections.abc import Iterable
from email.utils import formatdate

from starlette.types import Scope, Send

from berth.api.answers import mark_begun
from berth.api.errors import Header, HttpError
from berth.api.header_fields import header_of
from berth.api.placement.actions import PlacementReply, PlacementRoute
from berth.api.placement.errors import (
    Code,
    PlacementError,
    detail_of,
    error_body,
    error_page,
    unauthorized_body,
)
from berth.api.placement.versions import MINOR_MAX, minor_of, text_of, version_headers
from berth.api.request_id import request_id_of

JSON = "application/json"
HTML = "text/html"
NO_TYPE = "None"
"""The media type that error texts show for a body without a content type.

Placement formats Python's `None` into its texts, and its conformance suite compares them.
"""

_CORS_KEY = "berth.cors"
# Microversion 1.23 added `code` to errors; 1.15 added `last-modified` and `cache-control`.
_CODES_SINCE = 23
_TIMES_SINCE = 15
_JSON_TYPE: Header = (b"content-type", JSON.encode())
_HTML_TYPE: Header = (b"content-type", b"text/html; charset=UTF-8")
_NO_CACHE: Header = (b"cache-control", b"no-cache")


def allow_origin(scope: Scope, headers: tuple[Header, ...]) -> None:
    """Store CORS headers in the scope of a request, for its response."""
    scope[_CORS_KEY] = headers


def media_type_of(scope: Scope) -> str:
    """Return the media type of the body in lower case, without parameters, or `NO_TYPE`."""
    value = header_of(scope, b"content-type") or ""
    return value.partition(";")[0].strip().lower() or NO_TYPE


async def send_reply(
    scope: Scope, send: Send, action: PlacementRoute, reply: PlacementReply, now_s: float
) -> None:
    """Send a handler's reply.

    Args:
        scope: the scope of the request, with its negotiated version.
        send: the ASGI send callable.
        action: the route, which decides whether `last-modified` is sent without a body.
        reply: the handler's reply.
        now_s: current Unix time, sent as `last-modified` unless the reply has its own.
    """
    headers = list(reply.headers)
    if reply.body:
        headers.append(_JSON_TYPE)
    minor = minor_of(scope) or 0
    # The conformance suite expects both headers on every response with a body from 1.15 on, even
    # when no time of change is known; Placement then sends the current time.
    if (reply.body or action.is_timed) and minor >= _TIMES_SINCE:
        at_s = now_s if reply.modified_s is None else reply.modified_s
        headers += (_NO_CACHE, (b"last-modified", formatdate(at_s, usegmt=True).encode()))
    await _send(scope, send, reply.status, reply.body, headers)


async def send_refusal(scope: Scope, send: Send, error: HttpError) -> None:
    """Send an error as JSON, or as HTML if the client prefers HTML."""
    headers = [(name.lower().encode(), text.encode()) for name, text in error.headers.items()]
    accept = header_of(scope, b"accept")
    detail = detail_of(
        error,
        method=scope["method"][:20],
        accept=accept or JSON,
        content_type=media_type_of(scope),
    )
    if liking(accept, HTML) > liking(accept, JSON):
        await _send(scope, send, error.status, error_page(error, detail), [*headers, _HTML_TYPE])
        return
    # OpenStack's authentication middleware answers 401 before Placement runs, in its own format.
    is_unauthorized = error.status == 401  # noqa: PLR2004 - it has its own format
    body = (
        unauthorized_body(error)
        if is_unauthorized
        else error_body(error, detail, _about(scope, error))
    )
    await _send(scope, send, error.status, body, [*headers, _JSON_TYPE])


async def send_empty(scope: Scope, send: Send) -> None:
    """Send an empty 200 response that carries only headers."""
    await _send(scope, send, 200, b"", ())


def _about(scope: Scope, error: HttpError) -> dict[str, str]:
    minor = minor_of(scope)
    about: dict[str, str] = {}
    if minor is not None and minor >= _CODES_SINCE:
        about["code"] = error.code if isinstance(error, PlacementError) else Code.UNDEFINED
    about["request_id"] = request_id_of(scope)
    # A 406 of the version negotiation lists the supported range so that clients can retry within
    # it. Any later 406 (an unacceptable media type) has a negotiated version and no range.
    if minor is None and error.status == 406:  # noqa: PLR2004 - negotiation failed
        about |= {"max_version": text_of(MINOR_MAX), "min_version": text_of(0)}
    return about


async def _send(
    scope: Scope, send: Send, status: int, body: bytes, headers: Iterable[Header]
) -> None:
    sent_headers = [*headers, *version_headers(scope), *scope.get(_CORS_KEY, ())]
    sent_headers.append((b"x-openstack-request-id", request_id_of(scope).encode()))
    # HTTP forbids a content-length in a 204 response.
    if body or status != 204:  # noqa: PLR2004 - No Content
        sent_headers.append((b"content-length", b"%d" % len(body)))
    mark_begun(scope)
    await send({"type": "http.response.start", "status": status, "headers": sent_headers})
    await send({"type": "http.response.body", "body": body})


def liking(accept: str | None, media_type: str) -> float:
    """Return the quality that a client gives a media type, from 0 (not acceptable) to 1.

    Without an `accept` header, or with one that names no type, everything is acceptable. The most
    specific range decides; parameters other than `q` are ignored.

    Args:
        accept: value of the header, or None.
        media_type: in lower case.
    """
    if accept is None or "/" not in accept:
        return 1.0
    ranges = {media_type: 3, f"{media_type.partition('/')[0]}/*": 2, "*/*": 1}
    found = (0, 0.0)
    for item in accept.lower().split(","):
        name, *parameters = (part.strip() for part in item.split(";"))
        rank = ranges.get(name, 0)
        if rank > found[0]:
            found = (rank, _quality(parameters))
    return found[1]


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            try:
                return min(max(float(value), 0.0), 1.0)
            except ValueError:
                # A malformed quality must not make the type unacceptable.
                return 1.0
    return 1.0
