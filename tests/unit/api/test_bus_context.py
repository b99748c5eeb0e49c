"""The context of commands that are sent for an HTTP request."""

import pytest
from starlette.types import Scope

from berth.api.request_id import name_request
from berth.ports.bus import CONTEXT, Context

_TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def scope_with(traceparent: str | None) -> Scope:
    """Return the scope of a request."""
    headers = [(b"host", b"x")]
    if traceparent is not None:
        headers.append((b"traceparent", traceparent.encode("latin-1")))
    return {"type": "http", "headers": headers}


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (_TRACE, _TRACE),
        (None, None),
        ("", None),
        (_TRACE.upper(), None),
        (_TRACE + "-extra", None),
        ("\xff" * 55, None),
    ],
)
def test_commands_are_sent_in_the_name_of_the_request(
    header: str | None, expected: str | None
) -> None:
    """The context has the request id, and the caller's trace if it is valid."""
    name_request(scope_with(header), "req-7")
    assert CONTEXT.get().request_id == "req-7"
    assert CONTEXT.get().traceparent == expected
    assert CONTEXT.get().deadline_s is None


def test_a_repeat_stays_in_the_trace() -> None:
    """A changed request id keeps the current span in the context."""
    scope = scope_with(_TRACE)
    name_request(scope, "req-7")
    inner = _TRACE.replace("b7ad", "aaaa")
    CONTEXT.set(Context("req-7", None, inner))
    name_request(scope, "req-1")
    assert CONTEXT.get() == Context("req-1", None, inner)
