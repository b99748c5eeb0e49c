"""Limits on requests."""

import asyncio
import contextlib
import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope

from berth.api.errors import HttpError
from berth.api.limits import RequestLimits, check_depth, read_body
from tests.unit.api.conftest import MakeStack

SMALL = RequestLimits(body_bytes_max=10, body_timeout_s=0.05)


def scope_with(length: str | None = None) -> Scope:
    """Return the scope of a request with a Content-Length."""
    headers = [] if length is None else [(b"content-length", length.encode())]
    return {"type": "http", "headers": headers}


def sending(chunks: Sequence[bytes]) -> Receive:
    """Return a client that sends these chunks and then nothing more."""
    messages: list[Message] = [
        {"type": "http.request", "body": chunk, "more_body": chunk is not chunks[-1]}
        for chunk in chunks
    ]

    async def receive() -> Message:
        if messages:
            return messages.pop(0)
        await asyncio.Event().wait()
        raise AssertionError

    return receive


async def test_a_body_is_read_to_its_end() -> None:
    """The chunks of a body are joined."""
    assert await read_body(scope_with(), sending([b"abc", b"", b"def"]), SMALL) == b"abcdef"
    assert await read_body(scope_with("10"), sending([b"0123456789"]), SMALL) == b"0123456789"


@pytest.mark.parametrize(
    ("length", "chunks"),
    [
        ("11", [b""]),
        ("9" * 5000, [b""]),
        (None, [b"0123456789X"]),
        (None, [b"01234", b"56789", b"X"]),
        ("1", [b"01234", b"56789", b"X"]),
    ],
)
async def test_a_long_body_is_refused(length: str | None, chunks: list[bytes]) -> None:
    """A body beyond the limit gets 413, with or without a Content-Length."""
    with pytest.raises(HttpError) as caught:
        await read_body(scope_with(length), sending(chunks), SMALL)
    assert caught.value.status == 413


async def test_a_slow_body_is_refused() -> None:
    """A client that stops sending gets 408."""
    receive = sending([b"a", b"b"])
    await receive()

    async def first() -> Message:
        return {"type": "http.request", "body": b"a", "more_body": True}

    calls = iter([first, first])

    async def stalled() -> Message:
        for call in calls:
            return await call()
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(HttpError) as caught:
        await read_body(scope_with(), stalled, SMALL)
    assert caught.value.status == 408


async def test_a_body_that_never_begins_is_given_up() -> None:
    """A client that sends no body gets 408."""

    async def silent() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async with asyncio.timeout(5):
        with pytest.raises(HttpError) as caught:
            await read_body(scope_with("5"), silent, SMALL)
    assert caught.value.status == 408


async def test_a_body_that_breaks_off_is_refused() -> None:
    """An incomplete body gets 400."""
    messages: list[Message] = [
        {"type": "http.request", "body": b"a", "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        return messages.pop(0)

    with pytest.raises(HttpError) as caught:
        await read_body(scope_with(), receive, SMALL)
    assert caught.value.status == 400


DEPTHS = st.recursive(
    st.text() | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


def depth_of(value: object) -> int:
    """Return how deeply lists and objects are nested."""
    if isinstance(value, dict):
        return 1 + max((depth_of(inner) for inner in value.values()), default=0)
    if isinstance(value, list):
        return 1 + max((depth_of(inner) for inner in value), default=0)
    return 0


@given(value=DEPTHS, maximum=st.integers(min_value=0, max_value=4))
def test_depth_is_what_nesting_means(value: object, maximum: int) -> None:
    """The depth counts nested brackets only, not those in strings or next to each other."""
    body = json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")
    if depth_of(value) <= maximum:
        check_depth(body, maximum)
    else:
        with pytest.raises(HttpError):
            check_depth(body, maximum)


@pytest.mark.parametrize("body", [b"[" * 500_000, b'{"a":' * 100_000, b'"' + b'\\"' * 400_000])
def test_hostile_bodies_take_no_time(body: bytes) -> None:
    """The check of very deep bodies and long strings takes linear time."""
    with contextlib.suppress(HttpError):
        check_depth(body + b"[" * 40, 32)


async def test_long_paths_and_headers_are_refused(make_stack: MakeStack) -> None:
    """A long path or query gets 414, and long or many headers get 431."""
    stack = await make_stack(limits=RequestLimits(headers_max=8, header_bytes_max=300))
    assert (await stack.ask("GET", "/" + "x" * 9000)).status == 414
    assert (await stack.ask("GET", "/?" + "x" * 9000)).status == 414
    many = {f"x-{index}": "1" for index in range(9)}
    assert (await stack.ask("GET", "/", headers=many)).status == 431
    assert (await stack.ask("GET", "/", headers={"x": "y" * 301})).status == 431


async def test_a_deep_body_is_refused(make_stack: MakeStack) -> None:
    """A deeply nested body gets 400 before it is parsed."""
    stack = await make_stack()
    body = b'{"server":' + b"[" * 60_000 + b"]" * 60_000 + b"}"
    answer = await stack.ask("POST", "/v2.1/servers", body)
    assert answer.status == 400
    assert "nested deeper than 32" in answer.body["badRequest"]["message"]


async def test_an_oversized_body_is_refused(make_stack: MakeStack) -> None:
    """A body beyond the limit gets 413 with OpenStack's `overLimit`."""
    stack = await make_stack(limits=RequestLimits(body_bytes_max=1000))
    answer = await stack.ask("POST", "/v2.1/servers", b"x" * 1001)
    assert answer.status == 413
    assert answer.body["overLimit"]["code"] == 413


@pytest.mark.parametrize("query", ["&".join(["a=b"] * 101), "marker=%00", "limit=-1", "limit=x"])
async def test_a_bad_query_is_refused(make_stack: MakeStack, query: str) -> None:
    """Too many parameters, a NUL and invalid numbers get 400."""
    stack = await make_stack()
    assert (await stack.ask("GET", f"/v2.1/servers?{query}")).status == 400
