"""ASGI responses. Each carries the request id and, in the compute API, the microversion."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

from starlette.types import Message, Scope, Send

from berth.api.errors import Header, HttpError, fault_body
from berth.api.microversion import version_headers
from berth.api.request_id import id_headers

_BEGUN = "berth.answer_begun"
_TELLER = "berth.errors"
_TYPE: Header = (b"content-type", b"application/json")

ErrorTeller = Callable[[Scope, Send, HttpError], Awaitable[None]]
"""Sends an error response in the format of one API."""


def has_begun(scope: Scope) -> bool:
    """Return whether the response to a request has started."""
    return _BEGUN in scope


def mark_begun(scope: Scope) -> None:
    """Record that the response to a request has started."""
    scope[_BEGUN] = True


def tell_errors_by(scope: Scope, teller: ErrorTeller) -> None:
    """Set the error format of a request; the default is the compute API's format."""
    scope[_TELLER] = teller


async def send_error(scope: Scope, send: Send, error: HttpError) -> None:
    """Send an error response in the format of the API that the request addressed."""
    teller: ErrorTeller | None = scope.get(_TELLER)
    if teller is not None:
        await teller(scope, send, error)
        return
    headers = [(name.lower().encode(), text.encode()) for name, text in error.headers.items()]
    await send_bytes(scope, send, error.status, fault_body(error), headers)


async def send_bytes(
    scope: Scope, send: Send, status: int, body: bytes, headers: Iterable[Header] = ()
) -> None:
    """Send a JSON response, without a body when `body` is empty."""
    length = (b"content-length", b"%d" % len(body))
    # Content-Type describes content, so a response without a body has none (RFC 9110, 8.3).
    about = (_TYPE, length) if body else (length,)
    await send(_start(scope, status, [*headers, *about]))
    await send({"type": "http.response.body", "body": body})


async def send_chunks(
    scope: Scope,
    send: Send,
    status: int,
    chunks: AsyncIterator[bytes],
    headers: Iterable[Header] = (),
) -> None:
    """Send a JSON response chunk by chunk, each as soon as it is ready."""
    await send(_start(scope, status, [*headers, _TYPE]))
    async for chunk in chunks:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _start(scope: Scope, status: int, headers: list[Header]) -> Message:
    # Both senders start their responses here, so every response has the headers that clients and
    # logs rely on.
    headers += version_headers(scope)
    headers += id_headers(scope)
    mark_begun(scope)
    return {"type": "http.response.start", "status": status, "headers": headers}
