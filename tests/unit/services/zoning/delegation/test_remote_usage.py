"""Tests for the quota usage of servers in child zones during simultaneous resizes."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from berth.adapters.ledger import MemoryLedger
from berth.domain.errors import ConflictError, UnavailableError
from berth.domain.ledger.write import Put
from berth.domain.zones.zone import RemoteInstance, RemoteInstanceStage
from berth.services.zoning.delegation.remote_usage import PendingResize, RemoteUsage
from berth.testing.builders import make_flavor
from berth.testing.virtual_time import VirtualClock

Size = tuple[int, int]

UUID = "11111111-0000-4000-8000-000000000001"
SMALL, MIDDLE, BIG = (1, 512), (3, 512), (16, 256)
WALKS = 300
ASKING_S = 30.0


class _Clock(VirtualClock):
    """A clock that tests set."""

    seconds = 1_800_000_000.0

    def now_s(self) -> float:
        """Return the time that was set."""
        return self.seconds


CLOCK = _Clock()


@asynccontextmanager
async def counted(size: Size = SMALL) -> AsyncIterator[tuple[MemoryLedger, RemoteUsage]]:
    """Open a ledger with a remote server and the service under test."""
    ledger = MemoryLedger()
    remote = RemoteInstance(
        UUID, 1, RemoteInstanceStage.THERE, "p", "u", "r-1", "req-1", counts_as=size
    )
    await ledger.commit([(Put(remote),)])
    yield ledger, RemoteUsage(ledger, CLOCK, asking_s=ASKING_S)
    await ledger.close()


async def errand_of(ledger: MemoryLedger) -> RemoteInstance:
    """Return the record of the remote server."""
    found = await ledger.get(RemoteInstance, UUID)
    assert found is not None
    return found


async def begin(ledger: MemoryLedger, counting: RemoteUsage, to: Size | None) -> PendingResize:
    """Begin a resize, or the end of one for None."""
    flavor = None if to is None else make_flavor(vcpus=to[0], memory_mb=to[1])
    begun = await counting.begin(await errand_of(ledger), flavor)
    assert begun is not None
    return begun


async def test_a_child_is_asked_for_one_at_a_time() -> None:
    """A second resize is refused while one is in progress."""
    async with counted() as (ledger, counting):
        big = await begin(ledger, counting, BIG)
        for other in (MIDDLE, None):
            with pytest.raises(ConflictError, match="another resize of it"):
                await begin(ledger, counting, other)
        await counting.take(big)
        found = await errand_of(ledger)
        assert (found.counts_as, found.resize) == ((16, 512), (SMALL, BIG))
        await counting.undo(await begin(ledger, counting, MIDDLE))
        assert await errand_of(ledger) == found


async def test_a_process_that_dies_keeps_nobody_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resize whose process died counts at its maximum and blocks others only for a while."""
    async with counted() as (ledger, counting):
        await begin(ledger, counting, BIG)
        CLOCK.seconds += ASKING_S
        await counting.take(await begin(ledger, counting, MIDDLE))
        found = await errand_of(ledger)
        assert (found.counts_as, found.resize) == ((16, 512), ((16, 512), MIDDLE))


async def test_a_clock_that_was_set_back_keeps_nobody_either() -> None:
    """A resize does not block others after the clock is set back."""
    async with counted() as (ledger, counting):
        await begin(ledger, counting, BIG)
        CLOCK.seconds -= 3600
        await begin(ledger, counting, MIDDLE)


@dataclass
class _Child:
    """A child zone with one server: its size and its pending resize."""

    size: Size = SMALL
    wanted: Size | None = None

    @property
    def most(self) -> Size:
        """The largest size that the server may have."""
        other = self.size if self.wanted is None else self.wanted
        return max(self.size[0], other[0]), max(self.size[1], other[1])

    def resize(self, to: Size) -> bool:
        """Begin a resize unless one is pending; return whether it began."""
        if self.wanted is not None:
            return False
        self.wanted = to
        return True

    def end(self, *, is_reverted: bool) -> bool:
        """End the pending resize; return whether there was one."""
        if self.wanted is None:
            return False
        self.size, self.wanted = (self.size if is_reverted else self.wanted), None
        return True


@dataclass
class _Walk:
    """Simultaneous requests, each a sequence of steps."""

    ledger: MemoryLedger
    counting: RemoteUsage
    rng: random.Random
    child: _Child = field(default_factory=_Child)

    async def resize(self) -> AsyncIterator[None]:
        """Request a resize; its answer or its process may be lost."""
        to = self.rng.choice((SMALL, MIDDLE, BIG))
        try:
            begun = await begin(self.ledger, self.counting, to)
        except ConflictError:
            return
        yield
        is_taken = self.child.resize(to)
        yield
        match self.rng.choice(("lost", "died", "", "", "", "")):
            case "lost":
                await self.counting.leave_open(begun)
            case "died":
                CLOCK.seconds += ASKING_S
            case _ if is_taken:
                await self.counting.take(begun)
            case _:
                await self.counting.undo(begun)

    async def end(self) -> AsyncIterator[None]:
        """Request the end of a resize; its answer or its process may be lost."""
        is_reverted = self.rng.random() < 0.5
        try:
            begun = await begin(self.ledger, self.counting, None)
        except ConflictError:
            return
        yield
        has_ended = self.child.end(is_reverted=is_reverted)
        yield
        match self.rng.choice(("lost", "died", "", "", "", "")):
            case "lost":
                await self.counting.leave_open(begun)
            case "died":
                CLOCK.seconds += ASKING_S
            case _ if has_ended:
                await self.counting.end(begun, is_reverted=is_reverted)
            case _:
                await self.counting.undo(begun)

    async def end_by_itself(self) -> AsyncIterator[None]:
        """Let the child end a resize without a report."""
        self.child.end(is_reverted=self.rng.random() < 0.5)
        yield

    async def go(self) -> None:
        """Run a few requests with interleaved steps."""
        kinds = (self.resize, self.resize, self.end, self.end_by_itself)
        going = [self.rng.choice(kinds)() for _ in range(self.rng.randint(1, 4))]
        while going:
            one = self.rng.choice(going)
            try:
                await anext(one)
            except StopAsyncIteration:
                going.remove(one)


@pytest.mark.parametrize("tenth", range(10))
async def test_it_never_counts_for_less_than_it_may_come_to(tenth: int) -> None:
    """A remote server never counts as less than the largest size that it may have."""
    for seed in range(tenth, WALKS, 10):
        async with counted() as (ledger, counting):
            walk = _Walk(ledger, counting, random.Random(seed))
            for _ in range(12):
                await walk.go()
                found = await errand_of(ledger)
                assert found.counts_as is not None
                least = walk.child.most
                assert found.counts_as[0] >= least[0], (seed, found, walk.child)
                assert found.counts_as[1] >= least[1], (seed, found, walk.child)
                # A larger count has an open resize, which a later recount settles.
                assert found.resize is not None or found.counts_as == least, (seed, found)


async def test_a_deleted_server_counts_for_nothing_whatever_is_begun() -> None:
    """A deleted server counts as nothing, whatever resize was in progress."""
    async with counted() as (ledger, counting):
        begun = await begin(ledger, counting, BIG)
        await counting.count_no_more(await errand_of(ledger))
        await counting.take(begun)
        await counting.undo(begun)
        await counting.leave_open(begun)
        found = await errand_of(ledger)
        assert (found.counts_as, found.resize) == (None, None)
        assert await counting.begin(found, make_flavor()) is None


async def test_one_that_is_forgotten_meanwhile_stays_forgotten() -> None:
    """A server whose record was removed gets no new record."""
    async with counted() as (ledger, counting):
        begun = await begin(ledger, counting, BIG)
        gone = PendingResize(replace(begun.before, instance_uuid="other"), begun.to)
        await counting.take(gone)
        await counting.undo(gone)
        assert await ledger.get(RemoteInstance, "other") is None


async def test_the_ledger_may_be_away() -> None:
    """An unreachable ledger raises UnavailableError."""
    async with counted() as (ledger, counting):
        remote = await errand_of(ledger)
        await ledger.close()
        with pytest.raises(UnavailableError):
            await counting.begin(remote, make_flavor())
