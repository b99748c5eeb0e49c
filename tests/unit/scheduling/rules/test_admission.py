"""Admission: lists in aggregates of whom their hosts are for."""

import numpy as np

from berth.domain.compute.aggregate import Aggregate
from berth.scheduling.rules.admission import admits, listed
from berth.tables.host.feed import table_of
from berth.testing.fleets import Box, snapshot_of

HOSTS = table_of(
    snapshot_of(
        [Box("a"), Box("b"), Box("c")],
        aggregates=[
            Aggregate(1, "u1", "n1", frozenset("ab"), {"for": "x,", "also": "y"}),
            Aggregate(2, "u2", "n2", frozenset("b"), {"for": "z, w"}),
        ],
    )
)


def test_a_word_on_any_list_admits() -> None:
    """Of any aggregate, under any of the keys."""
    everyone = HOSTS.all_rows
    assert admits(HOSTS, ["for"], "x", everyone).tolist() == [True, True, True]
    assert admits(HOSTS, ["for"], "z", everyone).tolist() == [False, True, True]
    assert admits(HOSTS, ["for"], "y", everyone).tolist() == [False, False, True]
    assert admits(HOSTS, ["for", "also"], "y", np.array([2, 0])).tolist() == [True, True]
    assert admits(HOSTS, ["other"], "y", everyone).tolist() == [True, True, True]
    assert admits(HOSTS, [], "y", everyone).tolist() == [True, True, True]


def test_an_empty_word_is_on_no_list() -> None:
    """Though a list may have a comma at its end."""
    assert admits(HOSTS, ["for"], "", HOSTS.all_rows).tolist() == [False, False, True]


def test_lists_are_said_in_order() -> None:
    """Of all aggregates of the host; empty words are left out."""
    assert listed(HOSTS, ["for"], 1) == "w, x, z"
    assert listed(HOSTS, ["for", "also"], 0) == "x, y"
    assert listed(HOSTS, ["for"], 2) == "nothing"
