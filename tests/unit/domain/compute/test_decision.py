"""Tests for the scores of decisions and for the messages of domain errors."""

from berth.domain.compute.decision import NoValidHostError, Refusal, RefusalCode, ScorePart
from berth.domain.errors import NotFoundError, PolicyError


def test_a_part_is_multiplier_times_normalised() -> None:
    """The score of a part is its normalised value times its multiplier."""
    assert ScorePart("RAMWeigher", raw=512.0, normalised=0.5, multiplier=-2.0).score == -1.0


def test_errors_say_what_was_wrong_and_where() -> None:
    """Error messages name the object or field, and the refusal stays available on the error."""
    refusal = Refusal(RefusalCode.ALL_FILTERED, "No host. Because.", 0, 1, 5)
    error = NoValidHostError("req-1", refusal)
    assert str(error) == "request req-1: No host. Because."
    assert error.refusal is refusal
    assert str(NotFoundError("flavor", "42")) == "no flavor '42'"
    assert str(PolicyError("filters[2]", "unknown")) == "policy: filters[2]: unknown"
