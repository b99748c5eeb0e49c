"""Reading of bodies and queries, and their validation."""

from time import process_time

import pytest

from berth.api.codec import encode
from berth.api.placement.errors import PlacementError
from berth.api.placement.reading import body_of, check, check_query, query_of
from berth.api.placement.shapes import Shape, is_uuid, shape_at

ANYTHING = Shape({})
NAMED = Shape({"type": "object", "required": ["name"]})


def refusal(raw: bytes, shape: Shape = ANYTHING) -> str:
    """Return the message of the error for a body."""
    with pytest.raises(PlacementError) as caught:
        body_of(raw, shape)
    assert caught.value.status == 400
    return caught.value.message


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"{bad", "Malformed JSON: Expecting property name enclosed in double quotes: line 1"),
        (b"", "Malformed JSON: Expecting value: line 1 column 1 (char 0)"),
        (b"[1,", "Malformed JSON: Expecting value"),
        (b"[NaN]", "Malformed JSON: NaN is not a number in JSON"),
        (b"[-Infinity]", "Malformed JSON: -Infinity is not a number"),
        (b'"\xff"', "Malformed JSON: 'utf-8' codec"),
        (b'{"a":1}x', "Malformed JSON: Extra data"),
        (b'"\\u0000"', "U+0000"),
        (b'{"\\u0000":1}', "U+0000"),
        (b'["\\ud800"]', "a lone surrogate"),
        (b'{"a\\n":1}', "the key 'a\\n' has an unprintable character"),
        (b'{"a":[{"\\u001b":1}]}', "has an unprintable character"),
        (b"[123456789012345678901234567890]", "does not fit into 64 bits"),
        (b"[-1e400]", "does not fit into 64 bits"),
        (b"[1e400]", "does not fit into 64 bits"),
        (b'{"allocation_ratio":-1e400}', "allocation_ratio"),
        (b'{"allocation_ratio":-1' + b"0" * 400 + b"}", "allocation_ratio"),
        (b"1" * 5000, "Malformed JSON"),
    ],
)
def test_what_is_no_body(raw: bytes, text: str) -> None:
    """An invalid body gets 400 with the reason."""
    assert text in refusal(raw)


def test_what_has_another_shape_is_told_in_jsonschemas_words() -> None:
    """The message is that of jsonschema, which clients may evaluate."""
    text = refusal(b"{}", NAMED)
    assert text.startswith("JSON does not validate: 'name' is a required property")
    assert "Failed validating 'required' in schema" in text


def test_of_a_large_body_only_the_fault_is_told() -> None:
    """The message about a large body is short."""
    shape = Shape({"type": "array", "uniqueItems": True, "maxItems": 99_999})
    text = refusal(b"[" + b'"1",' * 50_000 + b'"1"]', shape)
    assert text.startswith("JSON does not validate: ['1', '1', '1'")
    assert text.endswith("Failed validating 'uniqueItems'")
    assert len(text) < 1200


def test_a_line_feed_at_the_end_is_looked_at() -> None:
    """A pattern does not match a text with a trailing line feed."""
    shape = Shape({"type": "string", "pattern": "^[A-Z]+$"})
    assert body_of(b'"A"', shape) == "A"
    for raw in (b'"A\\n"', b'"A\\n\\n"', b'"a"'):
        assert "does not match '^[A-Z]+$'" in refusal(raw, shape)


def test_what_must_be_unique_is_not_compared_pair_by_pair() -> None:
    """Checking 25,000 items for uniqueness takes less than five seconds."""
    shape = Shape({"type": "array", "uniqueItems": True})
    many: list[object] = [1, *(f"{number:034}" for number in range(25_000))]
    began_s = process_time()
    body_of(encode(many), shape)
    assert process_time() - began_s < 5
    assert "Failed validating 'uniqueItems'" in refusal(encode([*many, many[1]]), shape)


@pytest.mark.parametrize(
    ("raw", "data"),
    [
        (b'{"a": 1.0, "b": [2.0, 2.5]}', {"a": 1, "b": [2, 2.5]}),
        (b'{"allocation_ratio": 4, "x": true}', {"allocation_ratio": 4.0, "x": True}),
        (b'{"allocation_ratio": 1e30}', {"allocation_ratio": 1e30}),
        ('"☃\U0001f600"'.encode(), "☃\U0001f600"),
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b'{"allocation_ratio": null}', {"allocation_ratio": None}),
        (b"9223372036854775807", 2**63 - 1),
    ],
)
def test_numbers_are_as_they_can_be_stored(raw: bytes, data: object) -> None:
    """Whole numbers become ints, except for the allocation ratio."""
    found = body_of(raw, ANYTHING)
    assert found == data
    assert repr(found) == repr(data)


def test_what_is_plain_is_not_looked_at_again() -> None:
    """A body that `is_plain` accepts is not validated against the schema."""
    shape = Shape({"not": {}}, is_plain=lambda data: data == {"a": 1})
    assert body_of(b'{"a":1}', shape) == {"a": 1}
    assert "JSON does not validate" in refusal(b'{"a":2}', shape)


def query(text: bytes) -> list[tuple[str, str]]:
    """Return the parameters of a query string."""
    return query_of({"query_string": text})


@pytest.mark.parametrize(
    ("text", "items"),
    [
        (b"", []),
        (b"a=1&b=&a=2&c", [("a", "1"), ("b", ""), ("a", "2"), ("c", "")]),
        (b"name=%e2%98%83", [("name", "☃")]),
        ("name=☃".encode(), [("name", "☃")]),
        (b"a=x+y%2Bz;w=1", [("a", "x y+z;w=1")]),
    ],
)
def test_parameters_are_decoded_in_order(text: bytes, items: list[tuple[str, str]]) -> None:
    """Parameters keep their order and repetitions."""
    assert query(text) == items


@pytest.mark.parametrize("text", [b"a=%ff", b"a=\xff", b"a=%00", b"%00=a", b"a&" * 501])
def test_what_is_no_query(text: bytes) -> None:
    """A query that is not UTF-8, has a NUL or too many parameters gets 400."""
    with pytest.raises(PlacementError, match="Invalid query string parameters") as caught:
        query(text)
    assert caught.value.status == 400


def test_of_repeated_parameters_the_last_is_held_against_the_shape() -> None:
    """Only the last of repeated parameters is validated, as in Placement."""
    shape = Shape(
        {"properties": {"uuid": {"format": "uuid"}}, "additionalProperties": False}, is_query=True
    )
    good = "11111111-1111-4111-8111-111111111111"
    check_query([("uuid", "x"), ("uuid", good)], shape)
    for items, text in (
        ([("uuid", good), ("uuid", "foo")], "'foo' is not a 'uuid'"),
        ([("uuid", good.replace("-", ""))], "is not a 'uuid'"),
        ([("foo", "bar")], "Additional properties are not allowed ('foo' was unexpected)"),
    ):
        with pytest.raises(PlacementError) as caught:
            check_query(items, shape)
        assert caught.value.message.startswith("Invalid query string parameters: ")
        assert text in caught.value.message


def test_a_value_can_be_checked_by_itself() -> None:
    """`check` validates a single value."""
    check({"name": "x"}, NAMED)
    with pytest.raises(PlacementError, match="JSON does not validate"):
        check({}, NAMED)


def test_the_last_step_that_has_begun_counts() -> None:
    """The shape of a version is that of the last step up to it."""
    steps = tuple((minor, Shape({"const": minor})) for minor in (0, 8, 12))
    found = [shape_at(steps, minor).schema["const"] for minor in (0, 7, 8, 11, 12, 39)]
    assert found == [0, 0, 8, 8, 12, 12]


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("11111111-1111-4111-8111-111111111111", True),
        ("AAAAAAAABBBB4CCC8DDDEEEEEEEEEEEE", True),
        ("{11111111-1111-4111-8111-111111111111}", True),
        ("urn:uuid:11111111-1111-4111-8111-111111111111", True),
        ("11111111-1111-4111-8111-11111111111", False),
        ("g1111111-1111-4111-8111-111111111111", False),
        ("1111_111-1111-4111-8111-111111111111", False),
        ("", False),
    ],
)
def test_what_is_a_uuid_in_a_body(text: str, is_one: bool) -> None:
    """A uuid may be written in any form that Python accepts."""
    assert is_uuid(text) is is_one
