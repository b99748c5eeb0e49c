"""Tests for turning raw values into scores."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from berth.domain.compute.decision import ScoredHost
from berth.scheduling.evaluation.weighing import normalise, weigh
from berth.scheduling.rules.rule import Normalisation, Query, Reads, Scores, Weigher
from berth.tables.columnar.bitsets import Selection
from berth.tables.host.feed import table_of
from berth.tables.host.hosts import HostTable
from berth.testing.fleets import NOW_S, Box, asking, snapshot_of

REQUEST = asking()
QUERY = Query(REQUEST, REQUEST.needs, NOW_S, None, "new-0")


def fixed(name: str, *values: float, multiplier: float = 1.0) -> Weigher:
    """Return a weigher that gives row i the i-th value, or does not apply without values."""

    def raw(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
        return np.array(values, dtype=np.float64)[rows] if values else None

    return Weigher(name, raw, Reads((), ()), multiplier=multiplier)


@pytest.fixture
def hosts() -> HostTable:
    """Return a table of three hosts."""
    return table_of(snapshot_of([Box("a"), Box("b"), Box("c")]))


@pytest.mark.parametrize(
    ("raw", "floor", "ceiling", "normalised"),
    [
        ([1, 2, 3], None, None, [0, 0.5, 1]),
        ([3, 3, 3], None, None, [0, 0, 0]),
        ([-1.6e308, 0, 1.6e308], None, None, [0, 0.5, 1]),
        ([-1.6e308, 0, 1.6e308], -1.6e308, None, [0, 0.5, 1]),
        ([0, 5, 10], 0.0, None, [0, 0.5, 1]),
        ([5, 10], 0.0, None, [0.5, 1]),
        ([-5, 5, 10], 0.0, None, [0, 0.5, 1]),
        ([-5, -1], 0.0, None, [0, 0]),
        ([0, 0], 0.0, None, [0, 0]),
        ([7, 7], 0.0, None, [1, 1]),
        ([5, 20], None, 10.0, [0, 1]),
        ([11, 20], None, 10.0, [0, 0]),
        ([5, 20, -1], 0.0, 10.0, [0.5, 1, 0]),
        ([1, 2], 5.0, 5.0, [0, 0]),
        ([1, 2], 5.0, 4.0, [0, 0]),
        ([3], None, None, [0]),
        ([3], 0.0, None, [1]),
        ([np.nan, 1, 3], None, None, [0, 0, 1]),
        ([np.inf, 1, 3], None, None, [1, 0, 1]),
        ([-np.inf, 1, 3], 0.0, None, [1 / 3, 1 / 3, 1]),
        ([np.nan, np.inf], 0.0, 1.0, [0, 0]),
    ],
)
def test_values_are_scaled_between_the_ends(
    raw: list[float], floor: float | None, ceiling: float | None, normalised: list[float]
) -> None:
    """Values are scaled between the fixed ends, or the least and greatest finite value."""
    given = np.array(raw, dtype=np.float64)
    assert normalise(given, floor, ceiling).tolist() == pytest.approx(normalised)
    assert given.tolist() == pytest.approx(raw, nan_ok=True)


def test_scores_are_sums_of_multiplied_parts(hosts: HostTable) -> None:
    """A score is the sum of the weighers' multiplied parts, which can be read."""
    weighers = (fixed("X", 1, 2, 3, multiplier=2.0), fixed("Y", 5, 0, 10, multiplier=-1.0))
    ranking = weigh(hosts, QUERY, hosts.alive_rows(), weighers)
    assert ranking.scores.tolist() == [-0.5, 1.0, 1.0]
    (scored,) = ranking.scored([0])
    assert (scored.host, scored.node, scored.score) == ("a", "a", -0.5)
    assert [(p.weigher, p.raw, p.normalised, p.multiplier, p.score) for p in scored.parts] == [
        ("X", 1.0, 0.0, 2.0, 0.0),
        ("Y", 5.0, 0.5, -1.0, -0.5),
    ]


def test_only_the_hosts_at_hand_make_the_scale(hosts: HostTable) -> None:
    """Only the rows to be weighed determine the scale."""
    ranking = weigh(hosts, QUERY, np.array([0, 1]), (fixed("X", 1, 2, 100),))
    assert ranking.scores.tolist() == [0.0, 1.0]


def test_a_weigher_that_does_not_apply_has_no_part(hosts: HostTable) -> None:
    """A weigher that does not apply has no part in the score."""
    ranking = weigh(hosts, QUERY, hosts.alive_rows(), (fixed("None"), fixed("X", 1, 2, 3)))
    assert [part.weigher.name for part in ranking.parts] == ["X"]


@pytest.mark.parametrize("count", [0, 1])
def test_a_single_host_is_not_weighed(hosts: HostTable, count: int) -> None:
    """A single host is not weighed and has a score of 0."""
    ranking = weigh(hosts, QUERY, np.arange(count), (fixed("X", 1, 2, 3),))
    assert ranking.scores.tolist() == [0.0] * count
    assert ranking.parts == ()


def test_a_share_that_is_no_number_counts_as_none(hosts: HostTable) -> None:
    """A share that is NaN or infinite counts as 0, and the record can be encoded."""
    odd = fixed("X", np.nan, np.inf, 0.5)
    weighers = (replace(odd, share=odd.raw), replace(fixed("Y", 1, 2, 3), share=odd.raw))
    for normalisation, scores in (
        (Normalisation.SHARE, [0.0, 2.0, 1.0]),
        (Normalisation.NOVA, [0.0, 0.5, 1.0]),
    ):
        ranking = weigh(hosts, QUERY, hosts.alive_rows(), weighers, normalisation)
        assert ranking.scores.tolist() == scores
        for number in range(3):
            (told,) = ranking.scored([number])
            assert msgspec.json.decode(msgspec.json.encode(told), type=ScoredHost) == told
