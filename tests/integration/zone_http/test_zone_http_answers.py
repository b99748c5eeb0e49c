"""Answers of child zones in any pieces, cut at any place, and bytes that are not answers."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.domain.errors import UnavailableError
from berth.ports.zones import ForwardedRequest, ForwardedResponse, NotAskedError
from tests.integration.zone_http.scripted_http import Received
from tests.integration.zone_http.zone_asking import ask, both

_EXAMPLES = settings(max_examples=50, deadline=None)


def hear(pieces: list[bytes], *, bytes_max: int = 1_000) -> ForwardedResponse:
    """Return the answer read from these pieces, after which the connection ends."""

    async def answer(_: Received, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        writer.close()

    async def run() -> ForwardedResponse:
        async with both(answer) as (children, _, zone):
            return await ask(
                children, zone, ForwardedRequest("POST", "/", answer_bytes_max=bytes_max)
            )

    return asyncio.run(run())


def cut_at(raw: bytes, places: list[int]) -> list[bytes]:
    """Return the bytes cut at these places."""
    ends = [0, *sorted({place % (len(raw) + 1) for place in places}), len(raw)]
    return [raw[a:b] for a, b in pairwise(ends) if a < b]


@_EXAMPLES
@given(
    body=st.binary(max_size=300),
    piece=st.integers(1, 300),
    in_pieces=st.booleans(),
    places=st.lists(st.integers(0, 2_000), max_size=20),
)
def test_an_answer_is_the_same_in_whatever_pieces_it_comes(
    body: bytes, piece: int, *, in_pieces: bool, places: list[int]
) -> None:
    """An answer is read equally in any pieces, chunked or with a length."""
    head = b"HTTP/1.1 201 Created\r\nX-A: 1\r\n"
    if in_pieces:
        parts = [body[at : at + piece] for at in range(0, len(body), piece)]
        told = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
        raw = head + b"Transfer-Encoding: chunked\r\n\r\n" + told + b"0\r\n\r\n"
    else:
        raw = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    heard = hear(cut_at(raw, places))
    assert (heard.status, heard.headers["x-a"], heard.body) == (201, "1", body)


@_EXAMPLES
@given(
    body=st.binary(min_size=1, max_size=100), left=st.integers(0, 1_000), is_chunked=st.booleans()
)
def test_an_answer_that_is_cut_is_never_taken(body: bytes, left: int, *, is_chunked: bool) -> None:
    """An answer that lacks any bytes raises UnavailableError, not NotAskedError."""
    if is_chunked:
        raw = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % len(body)
        raw += body + b"\r\n0\r\n\r\n"
    else:
        raw = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    with pytest.raises(UnavailableError) as caught:
        hear([raw[: left % len(raw)]])
    assert not isinstance(caught.value, NotAskedError)


@_EXAMPLES
@given(st.lists(st.binary(max_size=200), max_size=5), st.binary(max_size=50))
def test_any_bytes_are_an_answer_or_an_error(pieces: list[bytes], after: bytes) -> None:
    """Any bytes after a status line give an answer within the limit or UnavailableError."""
    try:
        heard = hear([b"HTTP/1.1 200 OK\r\n" + after, *pieces], bytes_max=100)
    except UnavailableError:
        return
    assert len(heard.body) <= 100
    assert 200 <= heard.status <= 999


@_EXAMPLES
@given(st.binary(max_size=300))
def test_any_bytes_from_the_start_are_an_answer_or_an_error(raw: bytes) -> None:
    """Random bytes raise UnavailableError, not NotAskedError."""
    with pytest.raises(UnavailableError) as caught:
        hear([raw])
    assert not isinstance(caught.value, NotAskedError)
