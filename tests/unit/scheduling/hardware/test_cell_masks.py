"""Tests for counting whether guest cells find distinct host cells."""

from itertools import permutations
from random import Random

import numpy as np
import pytest

from berth.scheduling.hardware import cell_masks
from berth.scheduling.hardware.cell_masks import enough_cells


def by_trying(fits: list[list[bool]], counts: list[int]) -> bool:
    """Return whether some permutation of host cells takes all guest cells."""
    guests = [kind for kind, count in enumerate(counts) for _ in range(count)]
    cells = range(len(fits[0]))
    return any(
        all(fits[kind][cell] for kind, cell in zip(guests, chosen, strict=True))
        for chosen in permutations(cells, len(guests))
    )


@pytest.mark.parametrize("hall_max", [5, 0])
def test_counting_says_what_trying_says(monkeypatch: pytest.MonkeyPatch, hall_max: int) -> None:
    """`enough_cells` agrees with trying all permutations, by Hall's condition and by matching."""
    monkeypatch.setattr(cell_masks, "_HALL_MAX", hall_max)
    rng = Random(1)
    for _ in range(300):
        cells, kinds = rng.randint(1, 5), rng.randint(1, 3)
        counts = [rng.randint(1, 2) for _ in range(kinds)]
        rows = [
            [[rng.random() < 0.6 for _ in range(cells)] for _ in range(kinds)] for _ in range(4)
        ]
        fits = [np.array([row[kind] for row in rows]) for kind in range(kinds)]
        assert enough_cells(fits, counts).tolist() == [by_trying(row, counts) for row in rows]


def test_no_rows_and_no_cells() -> None:
    """No rows give no verdicts, and hosts without cells are not enough."""
    assert enough_cells([np.zeros((0, 3), np.bool_)], [1]).tolist() == []
    assert enough_cells([np.zeros((2, 0), np.bool_)], [1]).tolist() == [False, False]
    many = [np.ones((1, 7), np.bool_)] * 7
    assert enough_cells(many, [1] * 7).tolist() == [True]
    assert enough_cells([*many[1:], np.zeros((1, 7), np.bool_)], [1] * 7).tolist() == [False]
