"""Reading and writing JSON."""

import pytest

from berth.api.codec import UNSET, Model, Name, UnsetType, View, convert, decode, encode
from berth.domain.errors import InvalidInputError


class Inner(Model):
    """A thing within a thing."""

    name: Name
    count: int = 1


class Outer(Model, rename={"other_name": "os:other"}):
    """A thing."""

    inner: Inner
    labels: dict[str, int] | UnsetType = UNSET
    other_name: str | None = None


class Shown(View):
    """What is shown."""

    always: int
    sometimes: int | UnsetType = UNSET


def test_what_is_unset_is_left_out() -> None:
    """A view has the fields that its version has, and no others."""
    assert encode(Shown(always=1)) == b'{"always":1}'
    assert encode(Shown(always=1, sometimes=2)) == b'{"always":1,"sometimes":2}'


@pytest.mark.parametrize(
    ("body", "field", "reason"),
    [
        (b'{"inner":{"name":1}}', "inner.name", "Expected `str`, got `int`"),
        (b'{"inner":{"name":""}}', "inner.name", "length >= 1"),
        (b'{"inner":{"name":"a\\n"}}', "inner.name", "control characters"),
        (b'{"inner":{"name":"a\\u0007b"}}', "inner.name", "control characters"),
        (b'{"inner":{"name":"a","size":1}}', "inner", "unknown field `size`"),
        (b'{"inner":{"name":"a"},"labels":{"x":"y"}}', "labels[...]", "Expected `int`"),
        (b"{}", "body", "missing required field `inner`"),
        (b"[]", "body", "Expected `object`"),
        (b"", "body", "is not valid JSON"),
        (b'{"inner":', "body", "is not valid JSON"),
        (b"\xff", "body", "is not valid JSON"),
        (b'{"inner":{"name":"\xff"}}', "body", "is not valid JSON"),
        (b'{"inner":{"name":"\\ud800"}}', "body", "is not valid JSON"),
        (b'{"inner":{"name":"a\\u0000"}}', "body", "U+0000"),
    ],
)
def test_a_wrong_body_is_refused_by_its_field(body: bytes, field: str, reason: str) -> None:
    """Who sent it learns where it is wrong, and how."""
    with pytest.raises(InvalidInputError) as caught:
        decode(body, Outer)
    assert caught.value.field == field
    assert reason in caught.value.reason


def test_an_escaped_backslash_is_not_a_nul() -> None:
    """What begins with a backslash of its own is six ordinary characters."""
    body = b'{"inner":{"name":"\\\\u0000"}}'
    assert decode(body, Outer).inner.name == "\\u0000"


def test_a_renamed_field_goes_by_the_name_that_clients_know() -> None:
    """OpenStack's names with colons are the names on the wire."""
    body = b'{"inner":{"name":"a"},"os:other":"b"}'
    assert decode(body, Outer).other_name == "b"


def test_texts_of_a_query_become_numbers() -> None:
    """A query holds texts only."""
    read = convert({"name": "7", "count": "7"}, Inner, "query")
    assert (read.name, read.count) == ("7", 7)
    with pytest.raises(InvalidInputError, match=r"^count: Expected `int`"):
        convert({"name": "7", "count": "many"}, Inner, "query")
