"""Random walks over a tree of zones with lost messages and dying schedulers."""

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from random import Random
from typing import Final, TypeVar

import pytest

from berth.domain.compute.decision import Decision, Verdict
from berth.domain.compute.host import Service
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.request import Request, instance_uuid_of
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.errors import BerthError, NotFoundError, UnavailableError
from berth.domain.inventory.resources import VCPU
from berth.domain.ledger.record import PendingRequest
from berth.domain.ledger.write import Add, Put
from berth.domain.zones.zone import RemoteInstance, RemoteInstanceStage, Zone
from berth.domain.zones.zone_orders import (
    BuildOrder,
    BuildOutcome,
    Offers,
    ReleaseOrder,
    SelectOrder,
)
from berth.ports.zones import NotAskedError
from berth.services.placement.pending_requests import PendingRequests
from berth.services.servers.teardown import delete_instance
from berth.services.zoning.delegation.sagas import SagaStore
from berth.testing.builders import make_flavor, make_uuid
from tests.unit.services.wiring import open_second, order_of
from tests.unit.services.zoning.zone_harness import InProcessZones, ZoneServices, open_zone_services

T = TypeVar("T")

WALKS: Final = int(os.environ.get("BERTH_WALKS", "6"))
_STEPS: Final = 40
_REST_S: Final = 1000.0
_POLICIES: Final = (GroupPolicy.AFFINITY, GroupPolicy.ANTI_AFFINITY, GroupPolicy.SOFT_AFFINITY)


class BadRoads(InProcessZones):
    """Child zones to which questions and answers may be lost or late."""

    def __init__(self, rng: Random) -> None:
        super().__init__()
        self.rng = rng
        self.share = 0.0
        """The share of questions, and of answers, that are lost."""
        self.late_s: Sequence[float] = (0.0,)
        self.going: set[asyncio.Task[object]] = set()

    async def select(self, zone: Zone, order: SelectOrder, *, timeout_s: float) -> Offers:
        """Pass the order to the zone with losses and delays."""
        return await self._travel(
            timeout_s, lambda: super(BadRoads, self).select(zone, order, timeout_s=timeout_s)
        )

    async def build(
        self, zone: Zone, order: BuildOrder, *, timeout_s: float
    ) -> tuple[BuildOutcome, ...]:
        """Pass the order to the zone with losses and delays."""
        return await self._travel(
            timeout_s, lambda: super(BadRoads, self).build(zone, order, timeout_s=timeout_s)
        )

    async def release(self, zone: Zone, order: ReleaseOrder, *, timeout_s: float) -> frozenset[str]:
        """Pass the order to the zone with losses and delays."""
        return await self._travel(
            timeout_s, lambda: super(BadRoads, self).release(zone, order, timeout_s=timeout_s)
        )

    async def _travel(self, timeout_s: float, ask: Callable[[], Awaitable[T]]) -> T:
        if self.rng.random() < self.share:
            raise NotAskedError("nobody listens")
        is_lost = self.rng.random() < self.share
        delays_s = [self.rng.choice(self.late_s) for _ in ("there", "back")]

        async def go() -> T:
            await asyncio.sleep(delays_s[0])
            found = await ask()
            await asyncio.sleep(delays_s[1])
            if is_lost:
                raise UnavailableError("the answer is lost")
            return found

        # A zone that was asked continues when its caller no longer waits for the answer.
        task = asyncio.ensure_future(go())
        self.going.add(task)
        task.add_done_callback(self.going.discard)
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.shield(task)
        except TimeoutError as error:
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise UnavailableError("no answer in time") from error


def is_live(instance: Instance) -> bool:
    """Return whether an instance has a host and is not deleted."""
    return instance.host is not None and instance.status is not Status.DELETED


async def expire(house: ZoneServices) -> None:
    """End lapsed holds once a second."""
    while True:
        await asyncio.sleep(1.0)
        house.held.expire(house.desk.clock.now_s())


async def keep_hosts(house: ZoneServices) -> None:
    """Send the heartbeats of a zone's agents and complete its deletes."""
    desk = house.desk
    while True:
        hosts = [one.host for one in await desk.ledger.all(Service)]
        desk.replica.note_alive(hosts, desk.clock.now_s())
        for one in await desk.ledger.all(Instance):
            if one.task is Task.DELETING and one.status is not Status.DELETED:
                await desk.ledger.write(*delete_instance(one, None, desk.clock.now_s()))
        await asyncio.sleep(5.0)


class Walk:
    """One walk over a tree; see `test_the_books_are_right`."""

    def __init__(self, rng: Random, roads: BadRoads) -> None:
        self.rng = rng
        self.roads = roads
        self.requests: dict[str, tuple[str, Request]] = {}
        """The zone that was asked, and the request, by request id."""
        self.deleted: set[str] = set()
        self.perhaps_deleted: set[str] = set()
        self.tasks: dict[str, list[asyncio.Task[None]]] = {}
        self.asked: list[asyncio.Task[Decision]] = []
        self.lives = 0
        self.done = Counter[str]()

    def house(self, name: str) -> ZoneServices:
        """Return the current services of a zone."""
        return self.roads.houses[name]

    async def start(self, name: str) -> None:
        """Start a new scheduler of a zone, without the memory of the previous one."""
        old = self.house(name)
        self.lives += 1
        scheduler = f"s{self.lives}"
        house = ZoneServices(
            name,
            await open_second(old.desk),
            self.roads,
            old.children,
            scheduler=scheduler,
            holder=scheduler.encode().rjust(8, b"."),
        )
        desk = house.desk
        house.tree._sagas = SagaStore(
            ledger=desk.ledger,
            clock=desk.clock,
            telemetry=desk.told,
            scheduler=scheduler,
            lease_s=30.0,
        )
        pending = PendingRequests(
            ledger=desk.ledger,
            replica=desk.replica,
            placer=house.tree,
            clock=desk.clock,
            telemetry=desk.told,
            name=scheduler,
            withdrawn=house.withdrawals.note,
        )
        hosts = partial(keep_hosts, house)
        loops = (
            desk.follower.run,
            pending.run,
            house.withdrawals.run,
            hosts,
            partial(expire, house),
        )
        self.tasks[name] = [asyncio.ensure_future(loop()) for loop in loops]

    async def stop(self, name: str) -> None:
        """Stop the scheduler of a zone in the middle of its work."""
        tasks = self.tasks.pop(name)
        asked = [task for task in self.asked if task.get_name() == name and not task.done()]
        for task in (*tasks, *asked):
            task.cancel()
        for result in await asyncio.gather(*tasks, *asked, return_exceptions=True):
            assert isinstance(result, asyncio.CancelledError | BerthError | Decision), result

    async def ask(self) -> None:
        """Request instances from a zone, through its scheduler or as a pending request."""
        name = self.rng.choice(("root", "root", "root", "east"))
        house, number = self.house(name), len(self.requests)
        request_id = f"req-{number}"
        count = self.rng.choice((1, 1, 2, 3, 6))
        uuids = tuple(instance_uuid_of(request_id, index) for index in range(count))
        group = self.rng.choice((None, None, 0, 1, 2)) if name == "root" else None
        request = Request(
            request_id,
            uuids,
            make_flavor(),
            project_id="p",
            user_id="u",
            group_uuid=None if group is None else make_uuid("group", group),
        )
        order = order_of(request)
        members = tuple(replace(one, group_uuid=request.group_uuid) for one in order.instances)
        order = replace(order, instances=members)
        self.requests[request_id] = (name, request)
        if self.rng.random() < 0.5:
            task = asyncio.create_task(house.tree.place(order), name=name)
            self.asked.append(task)
        else:
            now_s = house.desk.clock.now_s()
            await house.desk.ledger.write(
                *map(Add, members), Add(PendingRequest(request, accepted_at_s=now_s))
            )

    async def delete(self) -> None:
        """Delete a random instance in the zone where it is."""
        name, request = self.rng.choice([*self.requests.values()])
        uuid = self.rng.choice(request.instance_uuids)
        while True:
            house = self.house(name)
            if await house.desk.ledger.get(Instance, uuid) is not None:
                with suppress(NotFoundError):
                    try:
                        await house.desk.instances.delete(uuid)
                    except UnavailableError:
                        self.perhaps_deleted.add(uuid)
                    else:
                        self.deleted.add(uuid)
                return
            remote = await house.desk.ledger.get(RemoteInstance, uuid)
            if remote is None:
                return
            name = house.children[remote.zone_id - 1].name

    async def go(self) -> None:
        """Take all steps of the walk."""
        for _ in range(_STEPS):
            chance = self.rng.random()
            if not self.requests or chance < 0.5:
                await self.ask()
            elif chance < 0.65:
                await self.delete()
            elif chance < 0.75:
                name = self.rng.choice([*self.tasks])
                await self.stop(name)
                await asyncio.sleep(self.rng.choice((0.0, 1.0, 20.0)))
                await self.start(name)
            elif chance < 0.85:
                self.roads.away ^= {self.rng.choice(("west", "east", "deep"))}
            elif chance < 0.95:
                ledger = self.house(self.rng.choice([*self.tasks])).desk.ledger
                ledger.away, ledger.silent = self.rng.choice(((1, 0), (3, 0), (0, 1)))
            await asyncio.sleep(self.rng.choice((0.0, 0.0, 0.01, 0.3, 1.0, 5.0, 40.0)))

    async def come_to_rest(self) -> None:
        """Make all zones reachable and wait until nothing is in progress."""
        self.roads.away.clear()
        self.roads.share, self.roads.late_s = 0.0, (0.0,)
        for house in self.roads.houses.values():
            house.desk.ledger.away = house.desk.ledger.silent = 0
        await asyncio.sleep(_REST_S)
        assert all(task.done() for task in self.asked)
        for name in list(self.tasks):
            await self.stop(name)

    async def check(self) -> None:
        """Check that each instance is in its zone and that nothing else is held."""
        homes: dict[str, list[str]] = {}
        for name, house in self.roads.houses.items():
            assert await house.desk.ledger.all(PendingRequest) == []
            assert {one.stage for one in await house.desk.ledger.all(RemoteInstance)} <= {
                RemoteInstanceStage.THERE
            }
            assert len(house.held) == 0
            here = [one for one in await house.desk.ledger.all(Instance) if is_live(one)]
            held = await house.desk.ledger.allocations()
            assert sum(one.amounts[VCPU] for one in held) == len(here), name
            for one in here:
                homes.setdefault(one.uuid, []).append(name)
        assert [uuid for uuid, some in homes.items() if len(some) > 1] == []
        for request_id, (name, request) in self.requests.items():
            await self._check_request(request_id, name, request, homes)

    async def _check_request(
        self, request_id: str, name: str, request: Request, homes: dict[str, list[str]]
    ) -> None:
        decision = await self.house(name).desk.ledger.get(Decision, request_id)
        wanted = set(request.instance_uuids) - self.deleted
        living = {uuid for uuid in request.instance_uuids if uuid in homes}
        if decision is None:
            # The scheduler died before it recorded the request, or all instances were deleted.
            assert not living
            return
        self.done[decision.verdict.value] += 1
        if decision.verdict is Verdict.REFUSED:
            assert living == set(), request_id
            return
        assert living - wanted == set(), request_id
        assert wanted - living <= self.perhaps_deleted, request_id
        for uuid in living:
            assert await self._found_from(name, uuid) == homes[uuid][0]

    async def _found_from(self, name: str, uuid: str) -> str | None:
        """Return the zone that the remote instances route requests about an instance to."""
        while True:
            house = self.house(name)
            remote = await house.desk.ledger.get(RemoteInstance, uuid)
            if remote is None:
                here = await house.desk.ledger.get(Instance, uuid)
                return None if here is None else name
            name = house.children[remote.zone_id - 1].name


@pytest.mark.parametrize("seed", range(WALKS))
async def test_the_books_are_right(seed: int) -> None:
    """After a random walk each instance is in one zone or none, and nothing else is held."""
    rng = Random(seed)
    roads = BadRoads(rng)
    sizes = {"root": (1, 4), "west": (2, 8), "east": (2, 8), "deep": (3, 8)}
    houses = [
        await open_zone_services(name, roads, hosts=hosts, vcpus=vcpus)
        for name, (hosts, vcpus) in sizes.items()
    ]
    root, west, east, deep = houses
    root.adopt(west, east)
    east.adopt(deep)
    for number, policy in enumerate(_POLICIES):
        group = ServerGroup(make_uuid("group", number), "g", policy, "p", "u")
        await root.desk.ledger.write(Put(group))
    roads.share = rng.choice((0.0, 0.05, 0.3))
    roads.late_s = rng.choice(((0.0,), (0.0, 0.0, 0.5), (0.0, 0.0, 0.0, 3.0, 40.0)))
    walk = Walk(rng, roads)
    for name in sizes:
        await walk.start(name)
    await walk.go()
    await walk.come_to_rest()
    await walk.check()
    assert walk.done["placed"]
