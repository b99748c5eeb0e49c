"""Berth's writes and reads against the real Placement's: every answer of random sequences."""

import asyncio
import os
from collections import Counter
from collections.abc import Sequence

import pytest

from tests.differential.peer import ROOT
from tests.differential.placement.real import Real
from tests.differential.placement_writes.comparing import Exchange
from tests.differential.placement_writes.excuses import EXCUSES, unexcused
from tests.differential.placement_writes.mutants import MUTANTS
from tests.differential.placement_writes.reach import LEAST, reached
from tests.differential.placement_writes.sequences import STEPS, replay, run, send_berth, shortest
from tests.unit.api.placement.world import World

SEED = int(os.environ.get("BERTH_DIFFERENTIAL_SEED", "1"))
ASKED = int(os.environ.get("BERTH_DIFFERENTIAL_QUERIES", "160"))
LIST = ROOT / "docs" / "reference" / "differences-from-placement.md"
TRIED = 14
"""The number of fixed sequences on which the comparison itself is tested."""

Sequences = Sequence[Sequence[Exchange]]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range((ASKED + STEPS - 1) // STEPS))
async def test_both_sides_say_the_same(real: Real, number: int) -> None:
    """Both sides answer each request of a random sequence alike, except for excused differences."""
    sent = []
    async for step, exchange in run(real, SEED, number):
        sent.append(step)
        if not unexcused(exchange):
            continue
        steps = await shortest(real, sent)
        last = await replay(real, steps) or exchange
        told = "\n".join(map(str, (*steps, last.sent, *unexcused(last))))
        pytest.fail(f"run(real, {SEED}, {number}):\n{told}")


@pytest.fixture(scope="module")
def sequences(real: Real) -> Sequences:
    """Return the exchanges of the sequences of seed 0."""

    async def exchanges(number: int) -> list[Exchange]:
        return [exchange async for _, exchange in run(real, 0, number)]

    async def send_all() -> Sequences:
        return [await exchanges(number) for number in range(TRIED)]

    return asyncio.run(send_all())


@pytest.mark.timeout(600)
def test_sequences_reach_every_route(sequences: Sequences) -> None:
    """The fixed sequences reach every route and outcome of `LEAST` often enough."""
    counts = Counter(name for one in sequences for exchange in one for name in reached(exchange))
    short = {name: counts[name] for name, least in LEAST.items() if counts[name] < least}
    assert not short, f"in {TRIED} sequences only"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_berth_is_found(
    sequences: Sequences, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The comparison finds each defect of `MUTANTS` in at least one sequence."""
    patch = MUTANTS[name]()
    monkeypatch.setattr(patch.owner, patch.name, patch.value)

    async def differs(exchanges: Sequence[Exchange]) -> bool:
        world = World()
        for one in exchanges:
            again = one._replace(berth=await send_berth(world, one.sent))
            if unexcused(again):
                return True
        return False

    async def is_found() -> bool:
        for one in sequences:
            if await differs(one):
                return True
        return False

    assert asyncio.run(is_found())


def test_every_excuse_has_its_reason() -> None:
    """Every excuse has a reason and a row in the list of differences."""
    listed = LIST.read_text("utf-8")
    for excuse in EXCUSES:
        assert f"| {excuse.name} |" in listed
        assert excuse.reason
