"""Values that clients write in several ways."""

import pytest

from berth.api.values import flag, isotime, moment, naive_time, number_of, whole
from berth.domain.errors import InvalidInputError


@pytest.mark.parametrize("text", ["True", "true", "1", "ON", "yes", "t", "Y", True])
def test_words_for_true(text: str | bool) -> None:
    """OpenStack's words for true are accepted."""
    assert flag(text, "x") is True


@pytest.mark.parametrize("text", ["False", "0", "off", "No", "f", "n", False, None])
def test_words_for_false(text: str | bool | None) -> None:
    """OpenStack's words for false are accepted, and None is false."""
    assert flag(text, "x") is False


def test_other_words_are_refused() -> None:
    """The error names the field."""
    with pytest.raises(InvalidInputError, match=r"^server\.x: "):
        flag("maybe", "server.x")


def test_digits_are_numbers() -> None:
    """A number may be a string, and must be in its range."""
    assert whole("12", "x") == whole(12, "x") == 12
    with pytest.raises(InvalidInputError):
        whole("0", "x", low=1)
    with pytest.raises(InvalidInputError):
        whole(2**31, "x")


def test_times_are_read_and_written() -> None:
    """Times are in ISO 8601, and UTC without a zone."""
    assert isotime(0.75) == "1970-01-01T00:00:00Z"
    assert naive_time(0.75) == "1970-01-01T00:00:00.750000"
    assert moment("1970-01-01T00:00:01Z", "x") == 1.0
    assert moment("1970-01-01T01:00:01+01:00", "x") == 1.0
    assert moment("1970-01-01", "x") == 0.0
    with pytest.raises(InvalidInputError):
        moment("yesterday", "x")


def test_numbers_of_uuids_fit_a_json_number() -> None:
    """The numbers of 1,000 uuids are different and below 2^53."""
    numbers = {number_of(f"00000000-0000-4000-8000-{i:012d}") for i in range(1000)}
    assert len(numbers) == 1000
    assert all(0 <= number < 2**53 for number in numbers)
