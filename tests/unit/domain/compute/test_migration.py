"""Migrations: the status shown to clients, and whose turn it is."""

from dataclasses import replace

from berth.domain.compute.migration import MoveKind, Stage
from berth.testing.builders import make_migration


def test_every_stage_has_a_status() -> None:
    """A nonempty one, in the terms of the compute API."""
    moves = [
        replace(make_migration(1), stage=stage, kind=kind) for stage in Stage for kind in MoveKind
    ]
    assert all(move.status for move in moves)
    assert replace(make_migration(1), stage=Stage.ARRIVED).status == "finished"


def test_a_stage_that_only_a_newer_version_knows_is_told_as_it_is() -> None:
    """So moves can be listed, and no agent of this version acts on this one."""
    move = replace(make_migration(1), stage=Stage("hovering"))
    assert move.status == "hovering"
    assert (move.turn, move.has_ended, move.is_left_over) == (None, False, False)
    assert move.concerns(move.source.host)
    assert not move.is_known


def test_nobody_here_has_a_turn_in_a_move_of_an_unknown_kind() -> None:
    """Its stage may be known, but not what the stage means for that kind."""
    move = replace(make_migration(1), kind=MoveKind("teleport"))
    assert (move.turn, move.is_known, move.has_ended) == (None, False, False)
