"""Header fields of a request."""

from starlette.types import Scope

from berth.api.header_fields import fields_of, header_of


def test_the_first_of_several_counts() -> None:
    """Of repeated fields, the first is returned, decoded as Latin-1."""
    fields = [(b"x-auth-token", b"bob"), (b"x-auth-token", b"admin"), (b"x-odd", b"\xfc")]
    scope: Scope = {"type": "http", "headers": fields}
    assert header_of(scope, b"x-auth-token") == "bob"
    assert header_of(scope, b"x-odd") == "ü"
    assert header_of(scope, b"authorization") is None
    assert dict(fields_of(scope)) == {b"x-auth-token": b"bob", b"x-odd": b"\xfc"}
