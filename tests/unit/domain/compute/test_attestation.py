"""Attestations: a level, until some time."""

import pytest

from berth.domain.compute.host import UNKNOWN_LEVEL, Attestation
from berth.domain.errors import InvalidInputError


@pytest.mark.parametrize(
    ("now_s", "level"), [(0.0, "trusted"), (10.0, "trusted"), (10.1, UNKNOWN_LEVEL)]
)
def test_a_level_runs_out(now_s: float, level: str) -> None:
    """After its last second it is unknown."""
    assert Attestation("trusted", 10.0).level_at(now_s) == level


@pytest.mark.parametrize("end_s", [float("inf"), float("nan")])
def test_an_end_that_is_no_time_is_refused(end_s: float) -> None:
    """Nothing is trusted for ever."""
    with pytest.raises(InvalidInputError, match="valid_until_s"):
        Attestation("trusted", end_s)
