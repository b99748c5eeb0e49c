"""Tests for merging lists of offers into one plan."""

import math

import pytest

from berth.scheduling.plan.offer_merge import (
    MergedOffer,
    adjusted_weight,
    merge_from_one_source,
    merge_offers,
)


def test_the_best_head_comes_next() -> None:
    """The list with the best next offer is taken from, and each list keeps its order."""
    taken = merge_offers([[0.5, 0.9], [0.7, 0.1]], 3)
    assert taken == [MergedOffer(1, 0, 0.7), MergedOffer(0, 0, 0.5), MergedOffer(0, 1, 0.9)]


def test_equal_weights_go_to_the_first_source() -> None:
    """Of equal weights the first source wins."""
    assert [one.source for one in merge_offers([[0.5], [0.5], [0.5]], 2)] == [0, 1]


def test_fewer_than_wanted() -> None:
    """If there are too few offers, all of them are returned."""
    assert len(merge_offers([[0.5], [], [0.4, 0.3]], 10)) == 3
    assert merge_offers([], 1) == []


def test_what_is_no_number_ends_its_list() -> None:
    """A weight that is not finite ends its list."""
    assert merge_offers([[0.1, math.nan, 0.9], [math.inf], [-math.inf]], 5) == [
        MergedOffer(0, 0, 0.1)
    ]


def test_all_from_one_source() -> None:
    """The source with enough offers and the greatest sum is taken."""
    weights = [[0.9], [0.2, 0.2, 0.9], [0.3, 0.4]]
    assert merge_from_one_source(weights, 2) == [MergedOffer(2, 0, 0.3), MergedOffer(2, 1, 0.4)]


def test_none_has_enough() -> None:
    """If no source has enough offers, the one with the most is taken."""
    assert [one.source for one in merge_from_one_source([[0.9], [0.1, 0.1]], 3)] == [1, 1]
    assert merge_from_one_source([], 3) == []


def test_weights_of_children_are_put_on_the_parents_scale() -> None:
    """A child's weight is scaled and shifted by the zone's settings."""
    assert adjusted_weight(0.5, 10.0, 2.0) == 11.0


@pytest.mark.parametrize("weight", [1e308, -1e308])
def test_scaled_weights_stay_numbers(weight: float) -> None:
    """Weights stay finite after repeated scaling and summing."""
    again = adjusted_weight(adjusted_weight(weight, 0.0, 1e9), -1e9, 1e9)
    assert math.isfinite(again)
    assert len(merge_from_one_source([[again] * 1000, [0.5]], 1000)) == 1000
