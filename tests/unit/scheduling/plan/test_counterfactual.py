"""Tests for the host that would win without one of the weighers."""

import numpy as np
import pytest

from berth.domain.compute.decision import Counterfactual, ScoredHost, counterfactuals
from berth.scheduling.evaluation.ranking import FullRanking
from berth.scheduling.evaluation.weighing import weigh
from berth.scheduling.plan import inspection
from berth.scheduling.rules.rule import Query, Reads, Scores, Weigher
from berth.tables.columnar.bitsets import Selection
from berth.tables.host.feed import table_of
from berth.tables.host.hosts import HostTable
from berth.testing.fleets import NOW_S, Box, asking, snapshot_of

HOSTS = table_of(snapshot_of([Box("b"), Box("a"), Box("c")]))
REQUEST = asking()


def ranking(**values: tuple[float, float, float]) -> FullRanking:
    """Return a ranking of b, a and c by these weighers' values."""

    def fixed(name: str, given: tuple[float, float, float]) -> Weigher:
        def raw(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
            return np.array(given)[rows]

        return Weigher(name, raw, Reads((), ()))

    query = Query(REQUEST, REQUEST.needs, NOW_S, None, "new-0")
    weighers = [fixed(name, given) for name, given in values.items()]
    return weigh(HOSTS, query, HOSTS.alive_rows(), weighers)


def test_without_a_weigher_another_host_wins() -> None:
    """Each weigher is left out in turn, with the winner and its score."""
    ranked = ranking(X=(0.0, 4.0, 3.0), Y=(1.0, 0.0, 0.9))
    assert [scored.host for scored in ranked.scored(ranked.best(3))] == ["c", "a", "b"]
    assert inspection.counterfactuals(ranked, lambda one: one) == (
        Counterfactual("X", "b", "b", 1.0),
        Counterfactual("Y", "a", "a", 1.0),
    )


def test_without_the_only_weigher_the_first_by_name_wins() -> None:
    """Without the only weigher all scores are equal and the first host by name wins."""
    ranked = ranking(X=(0.0, 1.0, 2.0))
    assert inspection.counterfactuals(ranked, lambda one: one) == (
        Counterfactual("X", "a", "a", 0.0),
    )


def test_a_record_tells_the_same_of_its_hosts() -> None:
    """The counterfactuals of a record follow from the parts of its scores."""
    ranked = ranking(X=(0.0, 4.0, 3.0), Y=(1.0, 0.0, 0.9))
    recorded = ranked.scored(ranked.best(3))
    found = counterfactuals(recorded)
    assert [(one.weigher, one.host) for one in found] == [("X", "b"), ("Y", "a")]
    assert [one.score for one in found] == pytest.approx([1.0, 1.0])
    assert counterfactuals([]) == ()
    assert counterfactuals([ScoredHost("a", "a", 0.0)]) == ()
