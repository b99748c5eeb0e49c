"""Tests for matching guests to distinct places."""

from itertools import permutations
from random import Random

from berth.scheduling.hardware.matching import covers, is_matchable


def test_others_move_where_that_helps() -> None:
    """Guests are rearranged if that gives every guest a place."""
    assert is_matchable([])
    assert is_matchable([0b11, 0b01])
    assert not is_matchable([0b01, 0b01])
    assert not is_matchable([0b01, 0])
    assert is_matchable([0b011, 0b110, 0b101])


def test_some_places_must_not_stay_empty() -> None:
    """`covers` requires that all guests have places and the wanted places are used."""
    assert covers([0b11], 0b10)
    assert not covers([0b01], 0b10)
    assert not covers([0b11], 0b11)
    assert covers([0b110, 0b011], 0b101)
    assert covers([], 0)


def test_it_says_what_trying_everything_says() -> None:
    """Both functions agree with trying all permutations."""
    rng = Random(1)
    for _ in range(2_000):
        places, guests = rng.randint(1, 4), rng.randint(0, 4)
        masks = [rng.randrange(1 << places) for _ in range(guests)]
        wanted = rng.randrange(1 << places)
        seats = [
            seats
            for seats in permutations(range(places), guests)
            if all(mask >> seat & 1 for mask, seat in zip(masks, seats, strict=True))
        ]
        assert is_matchable(masks) == bool(seats)
        taken = [sum(1 << seat for seat in one) for one in seats]
        assert covers(masks, wanted) == any(one & wanted == wanted for one in taken)
