"""Limits on what is in progress at the same time."""

from contextlib import ExitStack

import pytest

from berth.api.place_limit import PlaceLimit


def test_places_are_limited_for_each_key_and_in_total() -> None:
    """A key cannot use up the places of all; a place is free after its context, or an error."""
    limit = PlaceLimit(each_max=2, total_max=3)
    with ExitStack() as held:
        taken = [held.enter_context(limit.place(key)) for key in "aaabbc"]
        assert taken == [True, True, False, True, False, False]
    with pytest.raises(ValueError, match="broken"), limit.place("a"):
        raise ValueError("broken")
    with ExitStack() as held:
        assert [held.enter_context(limit.place(key)) for key in "abc"] == [True] * 3
