"""Durable throughput of the library: placements and plain claims on a SQLite ledger.

The ledger is a file in the folder for temporary files (`TMPDIR`), flushed at every commit. The
placement service decides, claims and records with several requests in flight; meanwhile a follower
keeps the replica current, as in a scheduler process.
"""

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import uvloop

from bench.cases import LibraryCases
from bench.desk import Fixed, WrongDecisionError
from bench.fleet import FLAVOR, IMAGE, NOW_S, Standstill, fleet, host_uuid, request, used_of
from bench.timing import collect_garbage
from berth.adapters.ledger import open_ledger
from berth.adapters.system import spare_the_collector
from berth.domain.compute.decision import Verdict
from berth.domain.compute.instance import Instance
from berth.domain.compute.request import Request, reservation_id_of
from berth.domain.inventory.allocation import Allocation, Claim
from berth.domain.inventory.resources import VCPU
from berth.domain.ledger.write import Committed, Put, Take, Unit
from berth.ports.ledger import Ledger
from berth.scheduling.evaluation.policy import Policy
from berth.services.decisions.decisions import DecisionService
from berth.services.placement.placement import PlacementService
from berth.services.replica.follower import Follower
from berth.services.replica.replica import Replica
from berth.services.requests.orders import PlaceOrder

_UNITS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Round:
    """One round: operations per second of wall time, and CPU time per operation."""

    per_s: float
    cpu_us: float


@dataclass(frozen=True, slots=True)
class LibraryTimes:
    """Medians of the rounds, and the rates of the best rounds, which were disturbed least.

    `flush_per_s` is how many small writes per second the disk can flush.
    """

    hosts: int
    in_flight: int
    placements_per_s: float
    placements_per_s_best: float
    placement_cpu_us: float
    claims_per_s: float
    claims_per_s_best: float
    claim_cpu_us: float
    flush_per_s: float
    rounds: int


@dataclass(frozen=True, slots=True)
class Desk:
    """The parts of a scheduler process that are measured: ledger and placement service."""

    ledger: Ledger
    placer: PlacementService


def measure_library(policy: Policy, cases: LibraryCases) -> LibraryTimes:
    """Return the times, measured on a new ledger, which is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="berth-bench-") as folder:
        return uvloop.run(_measure(Path(folder), policy, cases))


async def _measure(folder: Path, policy: Policy, cases: LibraryCases) -> LibraryTimes:
    placed: list[Round] = []
    claimed: list[Round] = []
    flushed: list[float] = []
    rng = Random(0)
    url = f"sqlite:///{folder / 'ledger.sqlite'}"
    await fill(url, cases.hosts)
    async with open_desk(url, policy) as desk:
        # Placements may fill a host, so claims go to hosts that have got none.
        untouched = {host_uuid(index): index for index in range(cases.hosts)}
        await place_round(desk, "warm-up", cases.placements // 4, cases.in_flight, untouched)
        for number in range(cases.rounds):
            flushed.append(flushes_per_s(folder, cases.flushes))
            name = f"place-{number}"
            placed.append(
                await place_round(desk, name, cases.placements, cases.in_flight, untouched)
            )
            hosts = rng.choices(list(untouched.values()), k=cases.commits)
            claimed.append(await _claim_round(desk.ledger, f"claim-{number}", hosts, cases))
    return LibraryTimes(
        hosts=cases.hosts,
        in_flight=cases.in_flight,
        placements_per_s=_median(one.per_s for one in placed),
        placements_per_s_best=round(max(one.per_s for one in placed), 1),
        placement_cpu_us=_median(one.cpu_us for one in placed),
        claims_per_s=_median(one.per_s for one in claimed),
        claims_per_s_best=round(max(one.per_s for one in claimed), 1),
        claim_cpu_us=_median(one.cpu_us for one in claimed),
        flush_per_s=_median(flushed),
        rounds=cases.rounds,
    )


def _median(values: Iterable[float]) -> float:
    return round(statistics.median(values), 1)


def flushes_per_s(folder: Path, count: int) -> float:
    """Return how many writes of 4 KiB, each flushed to the disk, are done per second."""
    block = bytes(4096)
    began_s = time.perf_counter()
    with (folder / "flush").open("wb", buffering=0) as file:
        for _ in range(count):
            file.write(block)
            os.fsync(file.fileno())
    return count / (time.perf_counter() - began_s)


@asynccontextmanager
async def open_desk(url: str, policy: Policy) -> AsyncIterator[Desk]:
    """Open a ledger that has a fleet, follow it, and yield the desk."""
    ledger = await open_ledger(url)
    clock = Standstill()
    replica = Replica()
    follower = Follower(ledger, clock, [replica])
    following: asyncio.Task[None] | None = None
    try:
        await follower.start()
        spare_the_collector()  # as every process of Berth does
        following = asyncio.create_task(follower.run())
        decision_service = DecisionService(replica, Fixed(policy), clock)
        placer = PlacementService(
            ledger=ledger,
            follower=follower,
            replica=replica,
            decision_service=decision_service,
            clock=clock,
        )
        yield Desk(ledger, placer)
    finally:
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        await ledger.close()


async def fill(url: str, hosts: int) -> None:
    """Register the fleet that Nova also gets in an empty ledger, and claim the used amounts.

    Raises:
        WrongDecisionError: the ledger rejected a unit.
    """
    units: list[Unit] = []
    for index, member in enumerate(fleet(hosts)):
        units.append((Put(member.host), Put(member.provider), Put(member.service)))
        units.extend(_standing_load(index))
    ledger = await open_ledger(url)
    try:
        for first in range(0, len(units), _UNITS_AT_ONCE):
            outcomes = await ledger.commit(units[first : first + _UNITS_AT_ONCE])
            if not all(isinstance(outcome, Committed) for outcome in outcomes):
                raise WrongDecisionError("the fleet could not be registered")
    finally:
        await ledger.close()


def _standing_load(index: int) -> Iterator[Unit]:
    """Yield claims for the used amounts of a host, in two parts, as they may exceed its total."""
    used = used_of(index)
    part = {name: amount // 2 for name, amount in used.items() if amount // 2}
    rest = {name: amount - part.get(name, 0) for name, amount in used.items()}
    for name, amounts in (("part", part), ("rest", rest)):
        if amounts:
            yield (_take(f"standing-{index}-{name}", index, amounts),)


def _take(key: str, index: int, amounts: dict[str, int]) -> Take:
    return Take(Claim(key, (Allocation(key, host_uuid(index), amounts),)))


async def place_round(
    desk: Desk, name: str, count: int, in_flight: int, untouched: dict[str, int]
) -> Round:
    """Place instances and return the round; hosts that get one are removed from `untouched`.

    Raises:
        WrongDecisionError: a request was refused.
    """
    orders = [_order(request(f"{name}-{index}")) for index in range(count)]

    async def place(index: int) -> None:
        decision = await desk.placer.place(orders[index])
        if decision.verdict is not Verdict.PLACED:
            raise WrongDecisionError(f"{decision.request_id}: {decision.refusal}")
        untouched.pop(decision.placements[0].provider_uuid, None)

    return await _timed_round(place, count, in_flight)


def _order(asked: Request) -> PlaceOrder:
    instances = tuple(
        Instance(
            uuid=uuid,
            name=asked.request_id,
            project_id=asked.project_id,
            user_id=asked.user_id,
            request_id=asked.request_id,
            reservation_id=reservation_id_of(asked.request_id),
            flavor=FLAVOR,
            image=IMAGE,
            created_at_s=NOW_S,
        )
        for uuid in asked.instance_uuids
    )
    return PlaceOrder(asked, instances)


async def _claim_round(
    ledger: Ledger, name: str, hosts: Sequence[int], cases: LibraryCases
) -> Round:
    """Claim one VCPU on each of the hosts, which may repeat, and return the round."""
    takes = [_take(f"{name}-{number}", index, {VCPU: 1}) for number, index in enumerate(hosts)]

    async def claim(index: int) -> None:
        (outcome,) = await ledger.commit([(takes[index],)])
        if not isinstance(outcome, Committed):
            raise WrongDecisionError(f"{name}-{index}: {outcome}")

    return await _timed_round(claim, len(takes), cases.in_flight)


async def _timed_round(work: Callable[[int], Awaitable[None]], count: int, in_flight: int) -> Round:
    """Do `work` for every index below `count`, `in_flight` at a time, and return the round."""
    indices = iter(range(count))

    async def worker() -> None:
        for index in indices:
            await work(index)

    collect_garbage()
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    await asyncio.gather(*(worker() for _ in range(in_flight)))
    cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s
    return Round(per_s=count / wall_s, cpu_us=cpu_s * 1e6 / count)
