"""Alternates: the unit that records a failed build or move also begins it on another host."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from berth.adapters.virt.fake import DriverFaults, FakeDriver, FakeHost, FakeMachine, FakeNetwork
from berth.agent.executor import HostContext, HostExecutor
from berth.domain.compute.build_failure import BuildError, FailureCause
from berth.domain.compute.decision import Decision
from berth.domain.compute.host import Service
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.migration import Migration, Stage
from berth.domain.compute.request import Operation, Request
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.errors import UnavailableError
from berth.domain.inventory.resources import VCPU
from berth.domain.ledger.record import PendingRequest
from berth.domain.ledger.write import Add, Put, Unit
from berth.services.requests.orders import PlaceOrder
from berth.services.servers.moves import AWAITING, MoveTarget, request_to_move
from berth.testing.builders import (
    make_aggregate,
    make_flavor,
    make_request,
    make_take,
    make_uuid,
)
from tests.gateways import make_alternates
from tests.unit.services.wiring import Desk, Fleet, open_desk, order_of

GROUP = ServerGroup(make_uuid("group", 1), "group", GroupPolicy.ANTI_AFFINITY)
DOWN_S = 60.0
NO_FAULTS = DriverFaults()


class Broken(FakeDriver):
    """A driver whose builds fail with a given error."""

    def __init__(self, host: str, desk: Desk, error: BuildError) -> None:
        super().__init__(FakeHost(host), desk.clock)
        self.error = error

    async def spawn(self, instance: Instance) -> None:
        """Raise the given error."""
        raise self.error


@dataclass(slots=True)
class Shop:
    """A desk, and executors for the agents of any host."""

    desk: Desk
    network: FakeNetwork
    machines: dict[str, FakeMachine]

    async def placed(self, request: Request) -> Instance:
        """Place a request for one instance and return the instance."""
        order = order_of(request)
        members = [replace(one, group_uuid=request.group_uuid) for one in order.instances]
        decision = await self.desk.placer.place(replace(order, instances=tuple(members)))
        assert decision.refusal is None
        return await self.now(request.instance_uuids[0])

    async def now(self, uuid: str) -> Instance:
        """Return an instance from the ledger."""
        instance = await self.desk.ledger.get(Instance, uuid)
        assert instance is not None
        return instance

    def bench(self, host: str, error: BuildError | None = None) -> HostContext:
        """Return the context of a host's executor; with an error, every build there fails."""
        desk = self.desk
        machine = self.machines.setdefault(host, FakeMachine(host))
        driver = FakeDriver(FakeHost(host, faults=NO_FAULTS), desk.clock, machine, self.network)
        if error is not None:
            driver = Broken(host, desk, error)
        alternates = make_alternates(desk.follower, desk.replica, desk.clock)
        return HostContext(host, desk.gateway(alternates=alternates), driver, desk.clock)

    async def fail(self, vm: Instance, error: BuildError | None = None) -> Instance:
        """Let the build of an instance fail on its host, and return the instance."""
        assert vm.host is not None
        broken = error or BuildError("no luck")
        await HostExecutor(self.bench(vm.host, broken)).carry_out(vm)
        return await self.now(vm.uuid)

    async def work(self, uuid: str, host: str, error: BuildError | None = None) -> Instance:
        """Let the agent of a host do its part for an instance, and return the instance."""
        await HostExecutor(self.bench(host, error)).carry_out(await self.now(uuid))
        return await self.now(uuid)

    async def fill(self, host: str) -> None:
        """Claim all remaining VCPUs of a host."""
        number = number_of(host)
        ledger = self.desk.ledger
        left = 4 - (await ledger.used(number)).get(VCPU, 0)
        await ledger.write(make_take(50 + number, on=number, amounts={VCPU: left}))

    async def used(self) -> dict[int, int]:
        """Return the used VCPUs by host number, without unused hosts."""
        used = {n: (await self.desk.ledger.used(n)).get(VCPU, 0) for n in range(1, 5)}
        return {number: amount for number, amount in used.items() if amount}


async def open_shop(*, hosts: int = 4, vcpus: int = 4) -> Shop:
    """Return a shop whose hosts have few VCPUs."""
    desk = await open_desk(Fleet(hosts=hosts, vcpus=vcpus))
    await desk.ledger.write(Put(GROUP))
    await desk.follower.catch_up()
    return Shop(desk, FakeNetwork(), {})


def number_of(host: str | None) -> int:
    """Return the number of a host."""
    assert host is not None
    return int(host.partition("-")[2])


async def test_a_build_that_failed_goes_on_at_the_first_alternate() -> None:
    """One unit frees the room here and claims it there, without a new decision."""
    shop = await open_shop()
    vm = await shop.placed(make_request())
    before = await shop.desk.ledger.version()
    now = await shop.fail(vm)
    assert (now.host, now.node) == vm.alternates[0] != (vm.host, vm.node)
    assert (now.status, now.task, now.retried) == (
        Status.BUILD,
        Task.SPAWNING,
        ((vm.host, vm.node),),
    )
    assert now.decision_id == vm.decision_id
    assert await shop.used() == {number_of(now.host): 1}
    changes = await shop.desk.ledger.changes(before)
    told = [one.version for one in changes if isinstance(one.event, Instance)]
    assert told == [before + 1]
    assert await shop.desk.ledger.all(PendingRequest) == []
    assert len(await shop.desk.ledger.all(Decision)) == 1


async def test_the_last_alternate_fails_too() -> None:
    """The instance is then in ERROR, and its fault lists each host with its reason."""
    shop = await open_shop()
    first = await shop.placed(make_request())
    second = await shop.fail(first, BuildError("no disk"))
    third = await shop.fail(second, BuildError("no network"))
    last = await shop.fail(third, BuildError("no luck"))
    hosts = [first.host, second.host, third.host]
    assert len(set(hosts)) == 3
    assert (last.status, last.task, last.host) == (Status.ERROR, None, None)
    assert last.fault is not None
    reasons = ("no disk", "no network", "no luck")
    told = [f"{host}: {why}" for host, why in zip(hosts, reasons, strict=True)]
    assert last.fault.details.splitlines() == told
    assert await shop.used() == {}


async def test_an_alternate_that_is_full_by_now_is_passed_over() -> None:
    """If the first alternate has no room, the next one is claimed."""
    shop = await open_shop()
    vm = await shop.placed(make_request())
    (one, _), (two, _) = vm.alternates
    await shop.fill(one)
    assert (await shop.fail(vm)).host == two


async def test_when_no_alternate_is_left_a_scheduler_chooses() -> None:
    """A pending request that excludes the failed host is written for a scheduler."""
    shop = await open_shop()
    vm = await shop.placed(make_request())
    for host, _ in vm.alternates:
        await shop.fill(host)
    now = await shop.fail(vm)
    assert (now.host, now.task) == (None, Task.SCHEDULING)
    (pending,) = await shop.desk.ledger.all(PendingRequest)
    assert pending.request.retried == ((vm.host, vm.node),)


async def _disable(shop: Shop, host: str) -> None:
    await shop.desk.hosts.set_service(host, disabled=True)


async def _silence(shop: Shop, host: str) -> None:
    service = await shop.desk.ledger.get(Service, host)
    assert service is not None
    await shop.desk.ledger.write(Put(replace(service, last_seen_s=0.0)))


async def _remove(shop: Shop, host: str) -> None:
    await shop.desk.hosts.remove(host)


@pytest.mark.parametrize("spoil", [_disable, _silence, _remove])
async def test_an_alternate_that_takes_nothing_now_is_passed_over(spoil: object) -> None:
    """An alternate that was removed, or whose service is disabled or down, is skipped."""
    assert callable(spoil)
    shop = await open_shop()
    vm = await shop.placed(make_request())
    (one, _), (two, _) = vm.alternates
    await spoil(shop, one)
    assert (await shop.fail(vm)).host == two


async def test_a_forced_host_has_no_alternates() -> None:
    """An instance on a forced host goes to ERROR, even if it has alternates."""
    shop = await open_shop()
    vm = await shop.placed(replace(make_request(), force_hosts=("host-2",)))
    assert vm.alternates == ()
    forced = replace(vm, forced=True, alternates=(("host-1", "host-1"),))
    await shop.desk.ledger.write(Put(forced))
    now = await shop.fail(await shop.now(vm.uuid))
    assert (now.status, now.host) == (Status.ERROR, None)


async def test_the_requests_own_fault_is_left_to_a_scheduler() -> None:
    """A failure that the request causes claims no alternate, since none would do better."""
    shop = await open_shop()
    vm = await shop.placed(make_request())
    now = await shop.fail(vm, BuildError("too small a disk", cause=FailureCause.GUEST))
    assert (now.host, now.task) == (None, Task.SCHEDULING)


async def test_a_host_without_room_after_all_is_left_for_an_alternate() -> None:
    """A claim that fails on the host uses an alternate and is not counted as a failed build."""
    shop = await open_shop()
    vm = await shop.placed(make_request())
    now = await shop.fail(vm, BuildError("no huge pages", cause=FailureCause.CLAIM))
    assert (now.host, now.node) == vm.alternates[0]
    service = await shop.desk.ledger.get(Service, vm.host or "")
    assert service is not None
    assert (service.failed_builds, service.failure_level) == (0, 0.0)
    assert [one.cause for one in service.build_failures] == [FailureCause.CLAIM]


async def test_an_alternate_that_has_a_member_by_now_is_passed_over() -> None:
    """An alternate with a member of the anti-affinity group is skipped."""
    shop = await open_shop(hosts=3)
    vm = await shop.placed(replace(make_request(), group_uuid=GROUP.uuid))
    (one, _), (two, _) = vm.alternates
    other = replace(make_request(2), group_uuid=GROUP.uuid, ignore_hosts=(two,))
    assert (await shop.placed(other)).host == one
    assert (await shop.fail(vm)).host == two


async def test_where_agents_tell_of_instances_a_scheduler_places_members() -> None:
    """For a member of a group, a host known by broadcasts is not used as an alternate."""
    shop = await open_shop(hosts=3)
    vm = await shop.placed(replace(make_request(), group_uuid=GROUP.uuid))
    shop.desk.replica.overlay.hosts.add(vm.alternates[0][0])
    assert (await shop.fail(vm)).task is Task.SCHEDULING


async def test_an_alternate_that_is_in_another_zone_by_now_is_passed_over() -> None:
    """An alternate outside the requested zone, which may be the default zone, is skipped."""
    shop = await open_shop()
    vm = await shop.placed(make_request())
    (one, _), _ = vm.alternates
    await shop.desk.ledger.write(Put(replace(make_aggregate(), hosts=frozenset({one}))))
    there = replace(vm, requested_zone="az-1", alternates=vm.alternates[::-1])
    await shop.desk.ledger.write(Put(there))
    assert (await shop.fail(await shop.now(vm.uuid))).host == one
    vm = await shop.placed(make_request(2))
    (three, _), *_ = vm.alternates
    members = frozenset({three})
    await shop.desk.ledger.write(Put(replace(make_aggregate(2), hosts=members)))
    await shop.desk.ledger.write(Put(replace(vm, requested_zone="nova")))
    now = await shop.fail(await shop.now(vm.uuid))
    assert now.host not in {None, one, three}


async def test_a_member_that_comes_at_the_same_time_makes_the_alternate_stale() -> None:
    """The guard of the group refuses the alternate, and the instance ends on another host."""
    shop = await open_shop(hosts=3)
    desk = shop.desk
    vm = await shop.placed(replace(make_request(), group_uuid=GROUP.uuid))
    one, two = vm.alternates

    async def place(units: Sequence[Unit]) -> None:
        desk.ledger.before_commit = None
        rival = replace(make_request(2), group_uuid=GROUP.uuid, ignore_hosts=(two[0],))
        assert (await shop.placed(rival)).host == one[0]

    desk.ledger.before_commit = place
    now = await shop.fail(vm)
    assert now.host != one[0]
    if now.host is None:
        (pending,) = await desk.ledger.all(PendingRequest)
        await desk.placer.place(PlaceOrder(pending.request, (now,), accepted=True))
        now = await shop.now(vm.uuid)
    assert now.host == two[0]


async def test_an_answer_that_is_lost_claims_no_second_room() -> None:
    """After a lost answer, the agent finds the instance on its new host and claims nothing more."""
    shop = await open_shop()
    vm = await shop.placed(make_request())
    work = HostExecutor(shop.bench(vm.host or "", BuildError("no luck")))
    shop.desk.ledger.silent = 1
    with pytest.raises(UnavailableError):
        await work.carry_out(vm)
    await work.carry_out(vm, in_doubt=True)
    now = await shop.now(vm.uuid)
    assert now.retried == ((vm.host, vm.node),)
    assert await shop.used() == {number_of(now.host): 1}


async def _begin_move(shop: Shop, uuid: str, operation: Operation) -> Instance:
    """Begin a move of a running instance and return it as the scheduler leaves it."""
    vm, desk = await shop.now(uuid), shop.desk
    flavor = replace(make_flavor(2), vcpus=2) if operation is Operation.RESIZE else None
    request = request_to_move(vm, operation, MoveTarget(), "req-move", flavor=flavor)
    await desk.ledger.write(
        Put(replace(vm, task=AWAITING[operation])), Add(PendingRequest(request, 1.0))
    )
    order = PlaceOrder(request, (await shop.now(uuid),), accepted=True)
    assert (await desk.placer.place(order)).refusal is None
    return await shop.now(uuid)


async def _move_of(shop: Shop, vm: Instance) -> Migration:
    move = await shop.desk.ledger.get(Migration, vm.migration_uuid or "")
    assert move is not None
    return move


@pytest.mark.parametrize("operation", [Operation.RESIZE, Operation.MIGRATE])
async def test_a_move_that_failed_goes_on_to_an_alternate(operation: Operation) -> None:
    """The unit that ends the failed move begins a new one to the alternate."""
    shop = await open_shop()
    vm = await shop.placed(make_request())
    home = vm.host or ""
    await shop.work(vm.uuid, home)
    moving = await _begin_move(shop, vm.uuid, operation)
    first = await _move_of(shop, moving)
    await shop.work(vm.uuid, home)
    await shop.work(vm.uuid, first.destination.host, BuildError("no luck"))
    back = await shop.work(vm.uuid, home)
    second = await _move_of(shop, back)
    assert (await shop.desk.ledger.get(Migration, first.uuid) or second).stage is Stage.FAILED
    assert (second.destination.host, second.destination.node) == moving.alternates[0]
    assert (second.stage, second.source.host, second.was) == (Stage.LEAVING, home, Status.ACTIVE)
    assert back.decision_id == moving.decision_id
    assert await shop.desk.ledger.all(PendingRequest) == []
    wanted = second.destination.flavor.vcpus
    there = second.destination.host
    assert await shop.used() == {number_of(home): 1, number_of(there): wanted}
    await shop.work(vm.uuid, home)
    done = await shop.work(vm.uuid, there)
    assert (done.status, done.host, done.fault) == (Status.RESIZED, there, None)


async def test_a_live_migration_and_an_evacuation_name_no_alternates() -> None:
    """A live migration has no alternates, as in Nova: a scheduler chooses another host."""
    shop = await open_shop()
    vm = await shop.placed(make_request())
    await shop.work(vm.uuid, vm.host or "")
    moving = await _begin_move(shop, vm.uuid, Operation.LIVE_MIGRATE)
    assert moving.alternates == ()
