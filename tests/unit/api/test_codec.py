"""Reading and writing of JSON."""

import pytest

from berth.api.codec import UNSET, Model, Name, UnsetType, View, convert, decode, encode
from berth.domain.errors import InvalidInputError


class Inner(Model):
    """A nested model."""

    name: Name
    count: int = 1


class Outer(Model, rename={"other_name": "os:other"}):
    """A model with a nested one."""

    inner: Inner
    labels: dict[str, int] | UnsetType = UNSET
    other_name: str | None = None


class Shown(View):
    """A view with an optional field."""

    always: int
    sometimes: int | UnsetType = UNSET


def test_what_is_unset_is_left_out() -> None:
    """An unset field of a view is omitted."""
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
    """The error names the field and the reason."""
    with pytest.raises(InvalidInputError) as caught:
        decode(body, Outer)
    assert caught.value.field == field
    assert reason in caught.value.reason


def test_an_escaped_backslash_is_not_a_nul() -> None:
    """An escaped backslash before `u0000` is read as ordinary characters."""
    body = b'{"inner":{"name":"\\\\u0000"}}'
    assert decode(body, Outer).inner.name == "\\u0000"


def test_a_renamed_field_goes_by_the_name_that_clients_know() -> None:
    """A field is read under its name in OpenStack, which has a colon."""
    body = b'{"inner":{"name":"a"},"os:other":"b"}'
    assert decode(body, Outer).other_name == "b"


def test_texts_of_a_query_become_numbers() -> None:
    """The strings of a query are converted to the types of the fields."""
    read = convert({"name": "7", "count": "7"}, Inner, "query")
    assert (read.name, read.count) == ("7", 7)
    with pytest.raises(InvalidInputError, match=r"^count: Expected `int`"):
        convert({"name": "7", "count": "many"}, Inner, "query")
