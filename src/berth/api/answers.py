"""Answers on their way out: every one tells the id of its request, and its microversion if any."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

from starlette.types import Message, Scope, Send

from berth.api.errors import Header, HttpError, fault_body
from berth.api.microversion import version_headers
from berth.api.request_id import id_headers

_BEGUN = "berth.answer_begun"
_TELLER = "berth.errors"
_TYPE: Header = (b"content-type", b"application/json")

ErrorTeller = Callable[[Scope, Send, HttpError], Awaitable[None]]
"""Answers a request with an error, in the form of one API."""


def has_begun(scope: Scope) -> bool:
    """Tell whether anything of the answer to a request was sent."""
    return _BEGUN in scope


def mark_begun(scope: Scope) -> None:
    """Note that the answer to a request is on its way."""
    scope[_BEGUN] = True


def tell_errors_by(scope: Scope, teller: ErrorTeller) -> None:
    """Have errors of a request told in the form of an API other than the compute API."""
    scope[_TELLER] = teller


async def send_error(scope: Scope, send: Send, error: HttpError) -> None:
    """Answer with an error, in the form of the API that was asked."""
    teller: ErrorTeller | None = scope.get(_TELLER)
    if teller is not None:
        await teller(scope, send, error)
        return
    headers = [(name.lower().encode(), text.encode()) for name, text in error.headers.items()]
    await send_bytes(scope, send, error.status, fault_body(error), headers)


async def send_bytes(
    scope: Scope, send: Send, status: int, body: bytes, headers: Iterable[Header] = ()
) -> None:
    """Answer with a JSON body, or none when it is empty."""
    length = (b"content-length", b"%d" % len(body))
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
    """Answer with a JSON body of chunks, each sent when it is there."""
    await send(_start(scope, status, [*headers, _TYPE]))
    async for chunk in chunks:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _start(scope: Scope, status: int, headers: list[Header]) -> Message:
    headers += version_headers(scope)
    headers += id_headers(scope)
    mark_begun(scope)
    return {"type": "http.response.start", "status": status, "headers": headers}
