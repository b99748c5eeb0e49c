"""Decisions: scores and their parts."""

from berth.domain.compute.decision import NoValidHostError, Refusal, RefusalCode, ScorePart
from berth.domain.errors import ContentionError, NotFoundError, PolicyError


def test_a_part_is_multiplier_times_normalised() -> None:
    """The raw value is kept for those who ask."""
    assert ScorePart("RAMWeigher", raw=512.0, normalised=0.5, multiplier=-2.0).score == -1.0


def test_errors_say_what_was_wrong_and_where() -> None:
    """Each message names the thing, and each error keeps its parts."""
    refusal = Refusal(RefusalCode.ALL_FILTERED, "No host. Because.", 0, 1, 5)
    error = NoValidHostError("req-1", refusal)
    assert str(error) == "request req-1: No host. Because."
    assert error.refusal is refusal
    assert str(NotFoundError("flavor", "42")) == "no flavor '42'"
    assert str(PolicyError("filters[2]", "unknown")) == "policy: filters[2]: unknown"
    assert "in 5 attempts" in str(ContentionError("req-1", 5))
