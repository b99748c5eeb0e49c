"""Values that clients write in several ways."""

import pytest

from berth.api.values import flag, isotime, moment, naive_time, number_of, whole
from berth.domain.errors import InvalidInputError


@pytest.mark.parametrize("text", ["True", "true", "1", "ON", "yes", "t", "Y", True])
def test_words_for_true(text: str | bool) -> None:
    """As OpenStack reads them."""
    assert flag(text, "x") is True


@pytest.mark.parametrize("text", ["False", "0", "off", "No", "f", "n", False, None])
def test_words_for_false(text: str | bool | None) -> None:
    """Nothing said is false."""
    assert flag(text, "x") is False


def test_other_words_are_refused() -> None:
    """By the name of the field."""
    with pytest.raises(InvalidInputError, match=r"^server\.x: "):
        flag("maybe", "server.x")


def test_digits_are_numbers() -> None:
    """Clients send counts as texts."""
    assert whole("12", "x") == whole(12, "x") == 12
    with pytest.raises(InvalidInputError):
        whole("0", "x", low=1)
    with pytest.raises(InvalidInputError):
        whole(2**31, "x")


def test_times_are_read_and_written() -> None:
    """In ISO 8601; what names no zone is UTC."""
    assert isotime(0.75) == "1970-01-01T00:00:00Z"
    assert naive_time(0.75) == "1970-01-01T00:00:00.750000"
    assert moment("1970-01-01T00:00:01Z", "x") == 1.0
    assert moment("1970-01-01T01:00:01+01:00", "x") == 1.0
    assert moment("1970-01-01", "x") == 0.0
    with pytest.raises(InvalidInputError):
        moment("yesterday", "x")


def test_numbers_of_uuids_fit_a_json_number() -> None:
    """They are equal for equal uuids and small enough for every client."""
    numbers = {number_of(f"00000000-0000-4000-8000-{i:012d}") for i in range(1000)}
    assert len(numbers) == 1000
    assert all(0 <= number < 2**53 for number in numbers)
