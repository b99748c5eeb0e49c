"""Tests for CrossCellWeigher."""

from dataclasses import replace

from berth.scheduling.weighers import same_cell
from berth.testing.fleets import Box, asking, snapshot_of
from tests.unit.scheduling.conftest import Ask

SNAPSHOT = snapshot_of([Box("a", cell="one"), Box("b", cell="two"), Box("c")])


def test_the_source_cell_is_better(ask: Ask) -> None:
    """The value is 1 in the source cell and -1 elsewhere."""
    asked = ask(SNAPSHOT, replace(asking(), source_cell="two"))
    assert asked.raw(same_cell.build()) == [-1.0, 1.0, -1.0]
    assert asked.shares(same_cell.build()) == [0.0, 1.0, 0.0]


def test_a_cell_that_no_host_is_in(ask: Ask) -> None:
    """If no host is in the source cell, all values are -1."""
    asked = ask(SNAPSHOT, replace(asking(), source_cell="gone"))
    assert asked.raw(same_cell.build()) == [-1.0, -1.0, -1.0]


def test_it_stands_aside_for_all_other_requests(ask: Ask) -> None:
    """The weigher does not apply to requests without a source cell."""
    asked = ask(SNAPSHOT, asking())
    assert asked.raw(same_cell.build()) is None
    assert asked.shares(same_cell.build()) is None


def test_defaults_are_those_of_nova() -> None:
    """The defaults are those of Nova."""
    weigher = same_cell.build()
    assert (weigher.name, weigher.multiplier) == ("CrossCellWeigher", 1_000_000.0)
    assert weigher.multiplier_key == "cross_cell_move_weight_multiplier"
