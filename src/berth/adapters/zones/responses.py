"""A parser for the HTTP responses of child zones, with limits.

It accepts only responses whose end is unambiguous.
"""

from typing import Final

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from berth.ports.zones import ForwardedRequest, ForwardedResponse

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
"""Hop-by-hop headers and `content-length`, which are not forwarded."""
_FIRST: Final = 100
_FIRST_FINAL: Final = 200
_OTHER_PROTOCOL: Final = 101
_WITHOUT_BODY: Final = frozenset({204, 304})
_HEADERS_MAX: Final = 128
# The maximum number of bytes of a head, or between two pieces of a body. llhttp has no such limit.
_UNREAD_BYTES_MAX: Final = 64 * 1024
_NO_HTTP: Final = "the response is not valid HTTP"


class ResponseError(Exception):
    """The server sent no valid response; the message says why, for operators."""


class ConnectionLostError(ResponseError):
    """The connection ended before the head of a response was complete."""


class ResponseReader:
    """Parses one response incrementally with llhttp, which also parses the API's requests.

    Attributes:
        is_whole: whether the response is complete.
        can_go_on: whether it is complete and the connection may be used for another request.

    Args:
        asked: the request to which the server responds.
    """

    def __init__(self, asked: ForwardedRequest) -> None:
        self.is_whole = False
        self.can_go_on = False
        self._has_body = asked.method != "HEAD"
        self._bytes_max = asked.answer_bytes_max
        self._parser = HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._headers_read = 0
        self._status = 0
        self._has_head = False
        self._keeps = False
        self._body = bytearray()
        self._unread_bytes = 0
        self._flaw = ""

    @property
    def answer(self) -> ForwardedResponse:
        """The response without hop-by-hop headers; valid once `is_whole` is set."""
        headers = self._headers
        kept = {name: headers[name] for name in headers if name not in CONNECTION_HEADERS}
        return ForwardedResponse(self._status, kept, bytes(self._body))

    def feed(self, data: bytes) -> None:
        """Parse more bytes.

        Raises:
            ResponseError: the bytes are not HTTP, the response is too long, or it has no
                unambiguous end.
        """
        self._unread_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            raise ResponseError(self._flaw or _NO_HTTP) from error
        if self._unread_bytes > _UNREAD_BYTES_MAX and not self.is_whole:
            place = "between two pieces of its body" if self._has_head else "in its head"
            self._flaw = (
                self._flaw or f"the response has more than {_UNREAD_BYTES_MAX} bytes {place}"
            )
        if self._flaw:
            raise ResponseError(self._flaw)

    def lost(self) -> ResponseError:
        """Return the error to raise if the connection ends at this point."""
        if self._has_head:
            return ResponseError("the connection was closed before the response was complete")
        return ConnectionLostError("the connection was closed before a response arrived")

    # ---- callbacks of the parser ----------------------------------------------------------
    # The callbacks record what is wrong instead of raising an error, because httptools replaces
    # their exceptions with its own.

    def on_message_begin(self) -> None:
        """Rule out reuse of the connection if this message follows a complete response."""
        if self.is_whole:
            self._keeps = self.can_go_on = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header, joining those of the same name; ignore trailers after a body."""
        if self._has_head:
            return
        self._headers_read += 1
        if self._headers_read > _HEADERS_MAX:
            self._flaw = self._flaw or f"the response has more than {_HEADERS_MAX} headers"
            return
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")
        self._headers[key] = f"{self._headers[key]}, {text}" if key in self._headers else text

    def on_headers_complete(self) -> None:
        """Decide from the head whether a body follows; record what is wrong with the head."""
        if self.is_whole:
            return
        self._unread_bytes = 0
        self._status = self._parser.get_status_code()
        if self._status < _FIRST_FINAL:
            if self._status == _OTHER_PROTOCOL:
                self._flaw = "the response switches to another protocol"
            elif self._status < _FIRST:
                self._flaw = _NO_HTTP
            return
        self._has_head = True
        self._keeps = self._parser.should_keep_alive()
        if self._has_body and self._status not in _WITHOUT_BODY:
            self._flaw = self._flaw or _flaw_of(self._headers)
        else:
            # A response to HEAD or with status 204 or 304 has no body. The parser does not know the
            # request and may wait for the length that the head names. The response therefore ends
            # here, and the connection is not reused.
            self.is_whole = True

    def on_body(self, piece: bytes) -> None:
        """Append a piece of the body."""
        if self.is_whole or not self._has_head or self._flaw:
            return
        self._unread_bytes = 0
        self._body += piece
        if len(self._body) > self._bytes_max:
            self._body.clear()
            self._flaw = f"the body of the response has more than {self._bytes_max} bytes"

    def on_message_complete(self) -> None:
        """End the response, or discard the headers of an informational response (1xx) before it."""
        if self._has_head:
            self.is_whole = True
            self.can_go_on = self._keeps and not self._flaw
        else:
            self._headers.clear()
            self._headers_read = 0


def _flaw_of(headers: dict[str, str]) -> str:
    """Return why a head is unacceptable, or an empty string if it is acceptable."""
    if headers.get("content-encoding", "identity").lower() != "identity":
        return "the response is compressed, although no encoding was accepted"
    # A body that ends with the connection cannot be distinguished from one that was cut off.
    coding = headers.get("transfer-encoding", "").lower()
    if coding != "chunked" and (coding or "content-length" not in headers):
        return "the response does not declare its length"
    return ""
