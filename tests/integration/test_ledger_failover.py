"""Failover of a PostgreSQL ledger to a streaming replica, under load, without a restart."""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import suppress
from dataclasses import replace

import pytest

from berth.adapters.ledger import open_ledger
from berth.adapters.system import SystemClock
from berth.domain.compute.flavor import Flavor
from berth.domain.errors import UnavailableError
from berth.domain.ledger.write import Put
from berth.ports.ledger import Ledger
from berth.services.replica.follower import Follower
from berth.services.replica.replica import Replica
from berth.testing.builders import make_flavor
from tests.postgres_pair import Pair, running_pair

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

_TIMEOUT_S = 2.0
_WRITERS = 8
# The longest time until a write is acknowledged; the promotion takes most of it.
_LONGEST_S = 20.0


@pytest.fixture
def pair() -> Generator[Pair]:
    """Yield a primary and a replica."""
    with running_pair() as made:
        yield made


class Party:
    """One process: its ledger, and a replica that follows it."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.replica = Replica()
        self.follower = Follower(ledger, SystemClock(), [self.replica])

    async def shown(self) -> set[str]:
        """Return the ids of the flavors in the replica, once it has caught up."""
        await self.follower.catch_up()
        return set(self.replica.flavors)

    async def stored(self) -> set[str]:
        """Return the ids of the flavors in the database."""
        return {flavor.flavor_id for flavor in await self.ledger.all(Flavor)}

    async def put(self, number: int) -> None:
        """Store a flavor; repeat until that is acknowledged."""
        while True:
            with suppress(UnavailableError):
                await self.ledger.commit([(Put(make_flavor(number)),)])
                return
            await asyncio.sleep(0.02)


@pytest.fixture
async def parties(pair: Pair) -> AsyncGenerator[list[Party]]:
    """Yield two processes on the pair, with loaded replicas."""
    made = [Party(await open_ledger(pair.url, timeout_s=_TIMEOUT_S)) for _ in range(2)]
    for one in made:
        await one.follower.start()
    yield made
    for one in made:
        await one.ledger.close()


class Load:
    """Tasks that store flavors and record which ones are acknowledged."""

    def __init__(self, parties: list[Party]) -> None:
        self.acknowledged: set[str] = set()
        self.longest_s = 0.0
        self._is_over = False
        self._awaited: tuple[int, asyncio.Event] = (0, asyncio.Event())
        self._tasks = [
            asyncio.create_task(self._write(parties[n % len(parties)], n)) for n in range(_WRITERS)
        ]

    async def _write(self, party: Party, first: int) -> None:
        number = first
        while not self._is_over:
            began_s = time.monotonic()
            await party.put(number)
            self.longest_s = max(self.longest_s, time.monotonic() - began_s)
            self.acknowledged.add(make_flavor(number).flavor_id)
            number += _WRITERS
            if len(self.acknowledged) == self._awaited[0]:
                self._awaited[1].set()

    async def wait_for(self, more: int) -> None:
        """Wait until that many more writes have been acknowledged."""
        self._awaited = (len(self.acknowledged) + more, asyncio.Event())
        await self._awaited[1].wait()

    async def end(self) -> None:
        """Wait for the last writes."""
        self._is_over = True
        await asyncio.gather(*self._tasks)


async def fail_over(pair: Pair) -> None:
    """Kill the primary, and promote the replica."""
    pair.primary.kill()
    await asyncio.to_thread(pair.promote)


async def test_probes_name_a_full_disk(pair: Pair) -> None:
    """The readiness names a full disk, and is good again once there is space, without a request."""
    pair.cut_off_replica()
    with pair.primary.small_disk() as disk:
        pair.primary.ask(f"CREATE TABLESPACE small LOCATION '{disk}'")
        pair.primary.ask("ALTER DATABASE berth SET TABLESPACE small")
        party = Party(await open_ledger(pair.url, timeout_s=_TIMEOUT_S))
        await party.put(1)
        ballast = disk / "ballast"
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        assert await party.ledger.write_fault() is None
        big = replace(make_flavor(2), description=secrets.token_hex(500_000))
        with pytest.raises(UnavailableError):
            await party.ledger.commit([(Put(big),)])
        for _ in range(3):
            assert await party.ledger.write_fault() == "the disk of the ledger is full"
        ballast.unlink()
        assert await party.ledger.write_fault() is None
        await party.put(2)
        await party.ledger.close()


async def test_synchronous_replication_loses_nothing(pair: Pair, parties: list[Party]) -> None:
    """After a failover under load, the database has each acknowledged write, and so do replicas."""
    await asyncio.to_thread(pair.replicate_synchronously)
    following = [asyncio.create_task(one.follower.run()) for one in parties]
    load = Load(parties)
    await load.wait_for(200)
    await fail_over(pair)
    await load.wait_for(200)
    await load.end()
    for task in following:
        task.cancel()
    await asyncio.gather(*following, return_exceptions=True)
    assert load.longest_s < _LONGEST_S
    for one in parties:
        assert await one.stored() >= load.acknowledged
        assert await one.shown() == await one.stored()


async def test_a_follower_of_a_lost_timeline_loads_a_snapshot(
    pair: Pair, parties: list[Party]
) -> None:
    """A follower that was paused during a failover that lost versions shows what is stored.

    Before, it continued after its version, which had become another one, and differed for ever.
    """
    busy, paused = parties
    for number in range(5):
        await busy.put(number)
    await asyncio.to_thread(pair.wait_for_replica)
    await asyncio.to_thread(pair.cut_off_replica)
    for number in range(5, 10):
        await busy.put(number)
    before = await paused.shown()
    await fail_over(pair)
    for number in range(10, 30):
        await busy.put(number)
    assert busy.follower.version < paused.follower.version < await busy.ledger.version()
    assert not before <= await busy.stored()
    assert await paused.shown() == await busy.stored()
    assert await busy.shown() == await busy.stored()


async def test_a_former_primary_is_not_used(pair: Pair) -> None:
    """If the former primary runs again beside the promoted replica, nothing is written to it."""
    ledger = await open_ledger(pair.url, timeout_s=_TIMEOUT_S)
    await Party(ledger).put(1)
    await asyncio.to_thread(pair.wait_for_replica)
    await fail_over(pair)
    await asyncio.to_thread(pair.primary.start)
    await ledger.close()
    for number in range(2, 6):
        ledger = await open_ledger(pair.url, timeout_s=_TIMEOUT_S)
        await Party(ledger).put(number)
        await ledger.close()
    count = "SELECT count(*) FROM flavors"
    assert pair.replica.ask(count, database="berth") == "5"
    assert pair.primary.ask(count, database="berth") == "1"


async def test_versions_that_survive_are_not_loaded_again(pair: Pair, parties: list[Party]) -> None:
    """A failover that loses nothing lets followers continue from their versions."""
    busy, other = parties
    for number in range(5):
        await busy.put(number)
    await other.follower.catch_up()
    hosts = other.replica.hosts
    await asyncio.to_thread(pair.wait_for_replica)
    await fail_over(pair)
    await busy.put(5)
    assert await other.shown() == await busy.stored()
    assert other.ledger.losses == 0
    assert other.replica.hosts is hosts
