"""A ledger whose process is killed has stored every acknowledged claim exactly once."""

import asyncio
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from berth.adapters.ledger import migrate, open_ledger
from berth.domain.compute.decision import Decision
from berth.domain.compute.instance import Instance
from berth.domain.ledger.write import Committed, Put, Unit
from berth.ports.ledger import Ledger
from berth.testing.builders import (
    make_decision,
    make_fleet,
    make_instance,
    make_take,
    make_uuid,
)
from berth.testing.emptying import empty

ROUNDS_MAX = 12
ROUNDS_MIN = 3
BUDGET_S = 8.0
"""No further round begins after this time, once `ROUNDS_MIN` are done."""

HOSTS = 4
CALLERS = 16
NUMBERS_PER_ROUND = 100_000


def claiming(number: int) -> Unit:
    """Return the unit that claims for one instance, and saves it and its decision."""
    return (
        make_take(number, on=1 + number % HOSTS),
        Put(make_instance(number, host=f"host-{1 + number % HOSTS}")),
        Put(make_decision(number)),
    )


async def claim_until_killed(url: str, first: int) -> None:
    """Claim as fast as possible, and print the number of each acknowledged claim."""
    ledger = await open_ledger(url)
    numbers = iter(range(first, first + NUMBERS_PER_ROUND))

    async def caller() -> None:
        for number in numbers:
            (outcome,) = await ledger.commit([claiming(number)])
            if isinstance(outcome, Committed):
                print(number, flush=True)  # noqa: T201 - this is how the child acknowledges

    await asyncio.gather(*(caller() for _ in range(CALLERS)))


def killed_child(url: str, first: int, acknowledgements: int) -> list[int]:
    """Run a child, kill it after some acknowledgements, and return its output."""
    with subprocess.Popen(
        [sys.executable, __file__, url, str(first)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        acknowledged = [int(child.stdout.readline()) for _ in range(acknowledgements)]
        child.kill()
        rest = child.stdout.read()
    acknowledged += [int(line) for line in rest.splitlines(keepends=True) if line.endswith("\n")]
    return acknowledged


async def check(ledger: Ledger, acknowledged: list[int]) -> int:
    """Check that all acknowledged claims are stored, and none partly; return the claim count."""
    allocations = await ledger.allocations()
    consumers = {allocation.consumer_uuid for allocation in allocations}
    assert len(consumers) == len(allocations)
    assert {make_uuid("instance", number) for number in acknowledged} <= consumers
    snapshot = await ledger.snapshot(0.0)
    taken = Counter(allocation.provider_uuid for allocation in allocations)
    assert {p.uuid: p.used["VCPU"] for p in snapshot.providers if p.used["VCPU"]} == taken
    assert {instance.uuid for instance in snapshot.instances} == consumers
    assert len(await ledger.all(Decision)) == len(consumers)
    return len(consumers)


async def check_retries(ledger: Ledger, acknowledged: list[int], claims: int) -> None:
    """Check that repeating every claim, answered or not, takes nothing twice."""
    first, last = min(acknowledged), max(acknowledged) + CALLERS
    numbers = range(first, last + 1)
    outcomes = await ledger.commit([claiming(number) for number in numbers])
    fresh = repeated = 0
    for number, outcome in zip(numbers, outcomes, strict=True):
        assert isinstance(outcome, Committed)
        assert outcome.repeated or number not in acknowledged
        fresh, repeated = fresh + (not outcome.repeated), repeated + outcome.repeated
    assert repeated >= len(acknowledged)
    assert await check(ledger, list(numbers)) == claims + fresh
    assert await ledger.get(Instance, make_uuid("instance", last)) is not None


async def prepare(url: str) -> None:
    """Create the fleet to claim from."""
    ledger = await open_ledger(url)
    await ledger.commit(make_fleet(HOSTS, vcpus=10**9))
    await ledger.close()


async def check_round(url: str, acknowledged: list[int]) -> None:
    """Check the ledger after a kill, then repeat the requests of the killed child."""
    ledger = await open_ledger(url)
    claims = await check(ledger, [])
    await check(ledger, acknowledged)
    await check_retries(ledger, acknowledged, claims)
    await ledger.close()


def kill_many_times(url: str, seed: int) -> None:
    """Kill a child after a few or many acknowledgements, and check, repeatedly."""
    chance = random.Random(seed)
    asyncio.run(prepare(url))
    end_s = time.monotonic() + BUDGET_S
    for number in range(ROUNDS_MAX):
        if number >= ROUNDS_MIN and time.monotonic() > end_s:
            break
        acknowledgements = chance.choice((1, 17, chance.randrange(1, 400)))
        acknowledged = killed_child(url, 1 + number * NUMBERS_PER_ROUND, acknowledgements)
        asyncio.run(check_round(url, acknowledged))


def test_sqlite_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    """After SIGKILL each acknowledged claim is in the file once, and retries add none twice."""
    kill_many_times(f"sqlite:///{tmp_path / 'ledger.db'}", seed=1)


@pytest.mark.postgres
def test_postgres_keeps_what_it_acknowledged(postgres_url: str) -> None:
    """After SIGKILL each acknowledged claim is in the database once, and retries add none twice."""

    async def clear() -> None:
        await migrate(postgres_url)
        await empty(postgres_url)

    asyncio.run(clear())
    kill_many_times(postgres_url, seed=2)


if __name__ == "__main__":
    asyncio.run(claim_until_killed(sys.argv[1], int(sys.argv[2])))
