"""Answers of the Placement API on their way out."""

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
"""What a body without a content type is said to be of."""

_CORS_KEY = "berth.cors"
_CODES_SINCE = 23
_TIMES_SINCE = 15
_JSON_TYPE: Header = (b"content-type", JSON.encode())
_HTML_TYPE: Header = (b"content-type", b"text/html; charset=UTF-8")
_NO_CACHE: Header = (b"cache-control", b"no-cache")


def allow_origin(scope: Scope, headers: tuple[Header, ...]) -> None:
    """Note what the answer tells a browser about other origins."""
    scope[_CORS_KEY] = headers


def media_type_of(scope: Scope) -> str:
    """Return the type of the body, without parameters; `NO_TYPE` when it has none."""
    value = header_of(scope, b"content-type") or ""
    return value.partition(";")[0].strip().lower() or NO_TYPE


async def send_reply(
    scope: Scope, send: Send, action: PlacementRoute, reply: PlacementReply, now_s: float
) -> None:
    """Answer with what a handler gave.

    Args:
        scope: of the request, whose version is negotiated.
        send: takes the answer.
        action: what was done; it says whether times are told even without a body.
        reply: what came of it.
        now_s: Unix time, told as that of the last change unless the reply has another.
    """
    headers = list(reply.headers)
    if reply.body:
        headers.append(_JSON_TYPE)
    minor = minor_of(scope) or 0
    if (reply.body or action.is_timed) and minor >= _TIMES_SINCE:
        at_s = now_s if reply.modified_s is None else reply.modified_s
        headers += (_NO_CACHE, (b"last-modified", formatdate(at_s, usegmt=True).encode()))
    await _send(scope, send, reply.status, reply.body, headers)


async def send_refusal(scope: Scope, send: Send, error: HttpError) -> None:
    """Answer with an error: as JSON, or as HTML when a client likes that better."""
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
    is_unauthorized = error.status == 401  # noqa: PLR2004 - told in a form of its own
    body = (
        unauthorized_body(error)
        if is_unauthorized
        else error_body(error, detail, _about(scope, error))
    )
    await _send(scope, send, error.status, body, [*headers, _JSON_TYPE])


async def send_empty(scope: Scope, send: Send) -> None:
    """Answer 200 with nothing but headers."""
    await _send(scope, send, 200, b"", ())


def _about(scope: Scope, error: HttpError) -> dict[str, str]:
    minor = minor_of(scope)
    about: dict[str, str] = {}
    if minor is not None and minor >= _CODES_SINCE:
        about["code"] = error.code if isinstance(error, PlacementError) else Code.UNDEFINED
    about["request_id"] = request_id_of(scope)
    if minor is None and error.status == 406:  # noqa: PLR2004 - no version was found
        about |= {"max_version": text_of(MINOR_MAX), "min_version": text_of(0)}
    return about


async def _send(
    scope: Scope, send: Send, status: int, body: bytes, headers: Iterable[Header]
) -> None:
    told = [*headers, *version_headers(scope), *scope.get(_CORS_KEY, ())]
    told.append((b"x-openstack-request-id", request_id_of(scope).encode()))
    if body or status != 204:  # noqa: PLR2004 - which never has a length
        told.append((b"content-length", b"%d" % len(body)))
    mark_begun(scope)
    await send({"type": "http.response.start", "status": status, "headers": told})
    await send({"type": "http.response.body", "body": body})


def liking(accept: str | None, media_type: str) -> float:
    """Return the quality that a client gives a media type, 0 when it does not want it.

    Without the header, or with one that names no type, everything is liked. The most specific range
    counts; parameters other than `q` are not looked at.

    Args:
        accept: the header, if there is one.
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
                return 1.0
    return 1.0
