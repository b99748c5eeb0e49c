"""The choice of outage tests: `_ALWAYS` runs each time, the rest in `make outages` only."""

import os

import pytest

_ALWAYS = {"test_a_minute", "test_kills"}


@pytest.fixture(autouse=True, scope="module")
def _only_when_asked_for(request: pytest.FixtureRequest) -> None:
    """Skip the long outages unless BERTH_OUTAGES is 1."""
    is_short = request.path.stem in _ALWAYS
    if not is_short and os.environ.get("BERTH_OUTAGES", "0") != "1":
        pytest.skip("these outages take minutes; run them with `make outages`")
