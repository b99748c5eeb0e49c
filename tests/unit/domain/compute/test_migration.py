"""Tests for the status of migrations and for the side that acts next."""

from dataclasses import replace

from berth.domain.compute.migration import MoveKind, Stage
from berth.testing.builders import make_migration


def test_every_stage_has_a_status() -> None:
    """Every stage of every kind of move has a nonempty status; ARRIVED is shown as `finished`."""
    moves = [
        replace(make_migration(1), stage=stage, kind=kind) for stage in Stage for kind in MoveKind
    ]
    assert all(move.status for move in moves)
    assert replace(make_migration(1), stage=Stage.ARRIVED).status == "finished"


def test_a_stage_that_only_a_newer_version_knows_is_told_as_it_is() -> None:
    """A stage from a newer version is shown by its name, and no side has a turn in it."""
    move = replace(make_migration(1), stage=Stage("hovering"))
    assert move.status == "hovering"
    assert (move.turn, move.has_ended, move.is_left_over) == (None, False, False)
    assert move.concerns(move.source.host)
    assert not move.is_known


def test_nobody_here_has_a_turn_in_a_move_of_an_unknown_kind() -> None:
    """A move of an unknown kind gives no side a turn and has not ended."""
    move = replace(make_migration(1), kind=MoveKind("teleport"))
    assert (move.turn, move.is_known, move.has_ended) == (None, False, False)
