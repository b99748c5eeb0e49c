"""Tests for the step budget of a query."""

import pytest

from berth.domain.errors import InvalidInputError
from berth.scheduling.candidates import arrangement_search as limits
from berth.scheduling.candidates.arrangement_search import Steps, TooManyWaysError
from berth.scheduling.candidates.candidate_search import find_candidates
from berth.scheduling.candidates.explain import explain
from tests.unit.scheduling.candidates.providers import asking, forest, group, provider


def test_anchors_and_candidates_allow_more() -> None:
    """The step budget grows with the anchors and with each candidate found."""
    few, many = Steps(1), Steps(1000)
    assert many.most > 3 * few.most
    few.count = few.most
    few.check()
    few.count += 1
    with pytest.raises(TooManyWaysError, match=f"after {few.count:,} steps"):
        few.check()
    few.allow_more()
    few.check()


def test_what_nobody_could_wait_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that exhausts its step budget is refused with advice for the caller."""
    monkeypatch.setattr(limits, "STEPS_AT_LEAST", 10)
    monkeypatch.setattr(limits, "STEPS_AN_ANCHOR", 0)
    devices = (provider(f"d{n}", {"DEVICE": 100 + n}, below="host") for n in range(4))
    table = forest(provider("host"), *devices)
    query = asking(*(group(f"_{n}", {"DEVICE": 40 + n}) for n in range(9)))
    for ask in (find_candidates, explain):
        with pytest.raises(InvalidInputError, match=r"too many ways .* fewer groups"):
            ask(table, query)
    monkeypatch.setattr(limits, "STEPS_AT_LEAST", 100_000)
    assert not find_candidates(table, query).composed
