"""Tests for parsing CPU sets as operators write them."""

import pytest

from berth.domain.errors import InvalidInputError
from berth.domain.hardware.cpu_sets import bits_of, check_cpus, cpus_of, parse_cpus


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("", set()),
        ("3", {3}),
        ("0-3", {0, 1, 2, 3}),
        ("0-3,^2", {0, 1, 3}),
        ("^2,0-3", {0, 1, 3}),
        ("0-7,^2-5, 9", {0, 1, 6, 7, 9}),
        (" 1 , ,2-2", {1, 2}),
        ("4095", {4095}),
    ],
)
def test_numbers_ranges_and_what_is_left_out(text: str, cpus: set[int]) -> None:
    """Numbers, ranges and exclusions are read in any order."""
    assert parse_cpus(text, "x") == cpus


@pytest.mark.parametrize(
    "text", ["a", "1-", "-1", "3-1", "^", "1-2-3", "4096", "0-99999999999", "1" * 5000, "²"]
)
def test_what_cannot_be_read_is_refused(text: str) -> None:
    """Malformed sets, reversed ranges and CPUs above 4095 are refused."""
    with pytest.raises(InvalidInputError, match=r"^x: "):
        parse_cpus(text, "x")


def test_bits_stand_for_cpus() -> None:
    """CPU sets convert to bit masks and back, in ascending order; CPU 4096 is refused."""
    assert bits_of({5, 0, 64}) == 1 | 32 | 1 << 64
    assert cpus_of(1 | 32 | 1 << 64) == [0, 5, 64]
    with pytest.raises(InvalidInputError, match="CPU 4096"):
        check_cpus([1, 4096], "x")
