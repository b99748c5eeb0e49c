"""Answers of child zones: read within limits, and taken only when their end is certain."""

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
"""Headers that are about one connection, and not passed on."""
_FIRST: Final = 100
_FIRST_FINAL: Final = 200
_OTHER_PROTOCOL: Final = 101
_WITHOUT_BODY: Final = frozenset({204, 304})
_HEADERS_MAX: Final = 128
_UNREAD_BYTES_MAX: Final = 64 * 1024
"""Bytes of a head, or of what is around the pieces of a body."""
_NO_ANSWER: Final = "the answer is no HTTP, or has a head that is too long"


class ResponseError(Exception):
    """What came cannot be taken as an answer: the reason, in words for operators."""


class ConnectionLostError(ResponseError):
    """The connection ended before the head of an answer had come."""


class ResponseReader:
    """Reads one answer as it comes. What is in it says llhttp, which also reads for the API.

    Attributes:
        is_whole: it is there.
        can_go_on: it is, and the connection may be used for another request.

    Args:
        asked: the request that it answers.
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
        """The answer, once it is whole."""
        headers = self._headers
        kept = {name: headers[name] for name in headers if name not in CONNECTION_HEADERS}
        return ForwardedResponse(self._status, kept, bytes(self._body))

    def feed(self, data: bytes) -> None:
        """Read on.

        Raises:
            ResponseError: it has no certain end, is too long, or is none.
        """
        self._unread_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            raise ResponseError(self._flaw or _NO_ANSWER) from error
        if self._unread_bytes > _UNREAD_BYTES_MAX and not self.is_whole:
            self._flaw = self._flaw or _NO_ANSWER
        if self._flaw:
            raise ResponseError(self._flaw)

    def lost(self) -> ResponseError:
        """Return what it means that nothing more comes."""
        if self._has_head:
            return ResponseError("the answer is cut")
        return ConnectionLostError("the connection was closed instead of an answer")

    # ---- called by the parser, which must not see an exception of ours --------------------

    def on_message_begin(self) -> None:
        """Begin an answer, a hint before it, or what nobody has asked for after it."""
        if self.is_whole:
            self._keeps = self.can_go_on = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; those of one name are joined, and what comes after a body is none."""
        if self._has_head:
            return
        self._headers_read += 1
        if self._headers_read > _HEADERS_MAX:
            self._flaw = self._flaw or _NO_ANSWER
            return
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")
        self._headers[key] = f"{self._headers[key]}, {text}" if key in self._headers else text

    def on_headers_complete(self) -> None:
        """Tell by a whole head whether and how a body is to follow."""
        if self.is_whole:
            return
        self._unread_bytes = 0
        self._status = self._parser.get_status_code()
        if self._status < _FIRST_FINAL:
            if self._status == _OTHER_PROTOCOL:
                self._flaw = "the answer is another protocol"
            elif self._status < _FIRST:
                self._flaw = _NO_ANSWER
            return
        self._has_head = True
        self._keeps = self._parser.should_keep_alive()
        if self._has_body and self._status not in _WITHOUT_BODY:
            self._flaw = self._flaw or _flaw_of(self._headers)
        else:
            # The parser may wait for the body that the head is about.
            self.is_whole = True

    def on_body(self, piece: bytes) -> None:
        """Keep a piece of the body."""
        if self.is_whole or not self._has_head or self._flaw:
            return
        self._unread_bytes = 0
        self._body += piece
        if len(self._body) > self._bytes_max:
            self._body.clear()
            self._flaw = f"the answer is above {self._bytes_max} bytes"

    def on_message_complete(self) -> None:
        """End an answer, or a hint before it."""
        if self._has_head:
            self.is_whole = True
            self.can_go_on = self._keeps and not self._flaw
        else:
            self._headers.clear()
            self._headers_read = 0


def _flaw_of(headers: dict[str, str]) -> str:
    """Return what is wrong with the head of an answer; nothing if all is as it was asked for."""
    if headers.get("content-encoding", "identity").lower() != "identity":
        return "the answer is compressed, which nobody asked for"
    coding = headers.get("transfer-encoding", "").lower()
    if coding != "chunked" and (coding or "content-length" not in headers):
        return "the answer does not say how long it is"
    return ""
