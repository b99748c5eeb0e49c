"""Limits on the size, nesting and arrival time of requests, enforced before a body is decoded."""

import asyncio
import re
from dataclasses import dataclass

from starlette.types import Receive, Scope

from berth.api.errors import Header, HttpError
from berth.api.header_fields import fields_of

_OPEN = frozenset(b"[{")
# A string or a bracket. The closing quote is optional and the repetition is possessive, so that an
# unterminated string is scanned once and not again from each of its quotes.
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The limits of a request, and of a page of a list.

    `body_timeout_s` bounds the time that a body may take to arrive. `json_depth_max` is the number
    of levels that lists and objects may nest. `list_max` is both the largest and the default page
    size.
    """

    body_bytes_max: int = 1024 * 1024
    body_timeout_s: float = 30.0
    json_depth_max: int = 32
    header_bytes_max: int = 32 * 1024
    headers_max: int = 100
    path_bytes_max: int = 8192
    query_bytes_max: int = 8192
    list_max: int = 1000


def refusal_of(scope: Scope, limits: RequestLimits) -> HttpError | None:
    """Return the error (414 or 431) for an oversized path, query or header; None if all fit."""
    headers: list[Header] = scope["headers"]
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    if len(path) > limits.path_bytes_max:
        return HttpError(414, f"The path is longer than {limits.path_bytes_max} bytes.")
    if len(scope["query_string"]) > limits.query_bytes_max:
        return HttpError(414, f"The query is longer than {limits.query_bytes_max} bytes.")
    if len(headers) > limits.headers_max:
        return HttpError(431, f"The request has more than {limits.headers_max} header fields.")
    header_bytes = 0
    for name, value in headers:
        header_bytes += len(name) + len(value)
    if header_bytes > limits.header_bytes_max:
        return HttpError(431, f"The header fields exceed {limits.header_bytes_max} bytes in total.")
    return None


async def read_body(scope: Scope, receive: Receive, limits: RequestLimits) -> bytes:
    """Return the whole body of a request.

    Raises:
        HttpError: the body is too long (413), arrives too slowly (408) or is cut short (400).
    """
    # A declared length above the limit is refused before a byte of the body is buffered. The
    # declaration may be wrong, so `_read_all` counts as well.
    length = fields_of(scope).get(b"content-length")
    if length is not None and _is_above(length, limits.body_bytes_max):
        raise _too_long(limits)
    try:
        # The timeout includes the wait for the first chunk, which a slow client may never send.
        async with asyncio.timeout(limits.body_timeout_s):
            return await _read_all(receive, limits)
    except TimeoutError as error:
        raise HttpError(
            408, f"The body did not arrive within {limits.body_timeout_s:g} s."
        ) from error


def check_depth(body: bytes, depth_max: int) -> None:
    """Reject JSON whose lists and objects are nested too deeply.

    Raises:
        HttpError: 400 when they are nested more than `depth_max` deep.
    """
    # Nearly every body has fewer brackets than the limit, and counting them is far cheaper than
    # tokenising.
    if body.count(b"[") + body.count(b"{") <= depth_max:
        return
    depth = 0
    for token in _TOKENS.finditer(body):
        char = body[token.start()]
        if char == ord('"'):
            continue
        depth += 1 if char in _OPEN else -1
        if depth > depth_max:
            raise HttpError(
                400, f"body: lists and objects are nested deeper than {depth_max} levels"
            )


async def _read_all(receive: Receive, limits: RequestLimits) -> bytes:
    chunks: list[bytes] = []
    length = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise HttpError(400, "The connection closed before the whole body arrived.")
        chunk: bytes = message.get("body", b"")
        length += len(chunk)
        if length > limits.body_bytes_max:
            raise _too_long(limits)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks)


def _is_above(text: bytes, maximum: int) -> bool:
    # The number of digits is compared first, because int() raises an error for a string of over
    # 4,300 digits.
    digits = text.strip()
    return digits.isdigit() and (len(digits) > len(str(maximum)) or int(digits) > maximum)


def _too_long(limits: RequestLimits) -> HttpError:
    return HttpError(413, f"The body is longer than {limits.body_bytes_max} bytes.")
