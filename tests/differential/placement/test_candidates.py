"""Berth's allocation candidates against the real Placement's: statuses, candidates, summaries."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import pytest

from tests.differential.peer import ROOT
from tests.differential.placement.excuses import EXCUSES, unexcused
from tests.differential.placement.mutants import MUTANTS
from tests.differential.placement.queries import Asked
from tests.differential.placement.reach import LEAST, reached
from tests.differential.placement.real import Real
from tests.differential.placement.worlds import (
    QUERIES,
    Forest,
    Pair,
    ask_again,
    ask_both,
    make_forest,
)

TRIED = 32
"""The number of fixed forests, those of seed 0, on which the comparison itself is tested."""

SEED = int(os.environ.get("BERTH_DIFFERENTIAL_SEED", "0"))
ASKED = int(os.environ.get("BERTH_DIFFERENTIAL_QUERIES", TRIED * QUERIES))
LIST = ROOT / "docs" / "reference" / "differences-from-placement.md"


class Compared(NamedTuple):
    """One forest, and the answers of both sides to its queries."""

    forest: Forest
    pairs: Sequence[Pair]


async def smallest(real: Real, forest: Forest, pair: Pair) -> Pair:
    """Return the query without the parameters that a difference does not need, and its answers."""
    items = pair.asked.items
    for item in items:
        rest = tuple(one for one in pair.asked.items if one is not item)
        smaller = await ask_both(real, forest, Asked(pair.asked.minor, rest))
        if unexcused(smaller):
            pair = smaller
    return pair


Compare = Callable[[int, int], Compared]
"""Asks both sides about the forest of a seed and a number, once for all tests of this module."""


@pytest.fixture(scope="module")
def compare(real: Real) -> Compare:
    """Return the function that asks both sides."""

    async def ask(seed: int, number: int) -> Compared:
        forest = await make_forest(real, seed, number)
        return Compared(forest, [await ask_both(real, forest, asked) for asked in forest.queries])

    return cache(lambda seed, number: asyncio.run(ask(seed, number)))


@pytest.fixture(scope="module")
def compared(compare: Compare) -> list[Compared]:
    """Return the answers of both sides about the fixed forests."""
    return [compare(0, number) for number in range(TRIED)]


async def report(real: Real, number: int, pair: Pair) -> str:
    """Return the smallest query about a forest that both sides answer differently, and how."""
    forest = await make_forest(real, SEED, number)
    pair = await smallest(real, forest, pair)
    told = "\n".join(map(str, unexcused(pair)))
    return f"make_forest(real, {SEED}, {number}), {pair.asked}:\n{told}"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range((ASKED + QUERIES - 1) // QUERIES))
def test_both_sides_say_the_same(real: Real, compare: Compare, number: int) -> None:
    """Both sides answer each query of a random forest alike, except for excused differences."""
    forest, pairs = compare(SEED, number)
    assert not forest.apart, f"make_forest(real, {SEED}, {number})"
    for pair in pairs:
        if unexcused(pair):
            pytest.fail(asyncio.run(report(real, number, pair)))


@pytest.mark.timeout(600)
def test_queries_reach_every_parameter(compared: list[Compared]) -> None:
    """The queries of the fixed forests reach every feature often enough."""
    counts = Counter(name for one in compared for pair in one.pairs for name in set(reached(pair)))
    short = {name: counts[name] for name, least in LEAST.items() if counts[name] < least}
    assert not short, f"in {TRIED} forests only"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_berth_is_found(
    compared: list[Compared], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The comparison finds each defect of `MUTANTS` in at least one query."""
    patch = MUTANTS[name]()
    monkeypatch.setattr(patch.owner, patch.name, patch.value)

    async def differs(forest: Forest, pair: Pair) -> bool:
        return bool(unexcused(await ask_again(forest, pair)))

    async def is_found() -> bool:
        for forest, pairs in compared:
            for pair in pairs:
                if await differs(forest, pair):
                    return True
        return False

    assert asyncio.run(is_found())


@pytest.mark.timeout(600)
def test_every_excuse_has_its_reason(compared: list[Compared]) -> None:
    """Every excuse has a reason and is in the docs, and none excuses a missing candidate."""
    listed = LIST.read_text("utf-8")
    for excuse in EXCUSES:
        assert f"| {excuse.name} |" in listed
        assert excuse.reason
    for _, pairs in compared:
        for pair in pairs:
            if pair.berth.found and not pair.asked.every("limit"):
                lost = replace(pair.berth, found=Counter(list(pair.berth.found)[1:]))
                assert unexcused(replace(pair, berth=lost))
