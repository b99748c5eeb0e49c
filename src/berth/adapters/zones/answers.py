"""Answers of child zones: read within limits, and taken only when their end is certain."""

from typing import Final

from aiohttp import ClientConnectionError, ClientPayloadError, ClientResponse

from berth.ports.zones import ForwardedAnswer, ForwardedRequest

CONNECTION_HEADERS: Final = frozenset(
    {
        "connection",
        "content-length",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that are about one connection, and not passed on."""
_FIRST_FINAL: Final = 200
_WITHOUT_BODY: Final = frozenset({204, 304})


class AnswerError(Exception):
    """What came cannot be taken as an answer: the reason, in words for operators."""


async def read_answer(response: ClientResponse, asked: ForwardedRequest) -> ForwardedAnswer:
    """Read the body of an answer; the caller closes the connection if this fails.

    Raises:
        AnswerError: it has no certain end, is cut or too long, or is none.
    """
    headers = _headers_of(response)
    if response.status < _FIRST_FINAL:
        raise AnswerError("the answer is another protocol")
    body = b""
    if asked.method != "HEAD" and response.status not in _WITHOUT_BODY:
        _check(headers)
        try:
            body = await _body_of(response, asked.answer_bytes_max)
        except (ClientConnectionError, ClientPayloadError) as error:
            raise AnswerError("the answer is cut") from error
    kept = {name: value for name, value in headers.items() if name not in CONNECTION_HEADERS}
    return ForwardedAnswer(response.status, kept, body)


def _headers_of(response: ClientResponse) -> dict[str, str]:
    """Return headers as they came; those of one name are joined, as HTTP allows."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in response.raw_headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _check(headers: dict[str, str]) -> None:
    """See that the body is as it was asked for, and its end can be told from a cut.

    Raises:
        AnswerError: it is compressed, or ends with its connection.
    """
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise AnswerError("the answer is compressed, which nobody asked for")
    coding = headers.get("transfer-encoding", "").lower()
    if coding != "chunked" and (coding or "content-length" not in headers):
        raise AnswerError("the answer does not say how long it is")


async def _body_of(response: ClientResponse, bytes_max: int) -> bytes:
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > bytes_max:
            raise AnswerError(f"the answer is above {bytes_max} bytes")
    return bytes(body)
