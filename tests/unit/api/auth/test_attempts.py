"""Limits on failed logins."""

import pytest

from berth.api.auth.attempts import FailedAttempts
from berth.api.errors import HttpError
from tests.unit.api.cloud import FakeClock


def test_too_many_failures_are_refused_for_a_while() -> None:
    """Failures beyond the limit are answered with 429 until the window of the first one ends."""
    clock = FakeClock()
    failed = FailedAttempts(clock, failures_max=2, window_s=60)
    failed.note("a")
    clock.seconds += 30
    failed.check("a")
    failed.note("a")
    with pytest.raises(HttpError) as caught:
        failed.check("a")
    assert caught.value.status == 429
    assert 30 <= int(caught.value.headers["Retry-After"]) <= 31
    failed.check("b")
    clock.seconds += 31
    failed.check("a")


def test_a_window_that_has_passed_counts_nothing() -> None:
    """Failures in different windows do not add up."""
    clock = FakeClock()
    failed = FailedAttempts(clock, failures_max=2, window_s=60)
    for _ in range(10):
        failed.note("a")
        failed.check("a")
        clock.seconds += 61


def test_a_success_is_taken_back() -> None:
    """`forgive` removes the attempt that was counted before its success was known."""
    failed = FailedAttempts(FakeClock(), failures_max=1)
    for _ in range(3):
        failed.check("a")
        failed.note("a")
        failed.forgive("a")


def test_memory_is_bounded() -> None:
    """Beyond the limit of keys, the oldest are forgotten."""
    failed = FailedAttempts(FakeClock(), failures_max=1, keys_max=10)
    for index in range(100):
        failed.note(str(index))
    failed.check("0")
    with pytest.raises(HttpError):
        failed.check("99")
