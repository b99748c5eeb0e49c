"""Tests that each pending request is decided once or given up with a reason."""

import asyncio
from dataclasses import replace

import pytest

from berth.domain.compute.decision import Decision
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.request import Operation, Request
from berth.domain.errors import UncertainFleetError
from berth.domain.inventory.resources import VCPU
from berth.domain.ledger.record import Kind, PendingRequest
from berth.domain.ledger.write import Put, Remove
from berth.services.decisions.contention import Backoff
from berth.services.decisions.decisions import DecisionService
from berth.testing.builders import make_decision, make_flavor, make_request, make_uuid
from tests.unit.services.wiring import Desk, Fleet, open_desk, open_second, order_of, running


class CountingDeciding(DecisionService):
    """A decision service that records the ids of the requests."""

    def __init__(self, desk: Desk, decided: list[str]) -> None:
        super().__init__(desk.replica, desk.policies, desk.clock)
        self._decided = decided

    def decide(
        self, request: Request, *, attempt: int = 1, left_out: frozenset[str] = frozenset()
    ) -> Decision:
        """See `DecisionService.decide`."""
        self._decided.append(request.request_id)
        return super().decide(request, attempt=attempt, left_out=left_out)


async def accept(desk: Desk, request: Request, *, at_s: float = 0.0) -> None:
    """Write a request to the ledger, as an API process without a scheduler does."""
    instances = (Put(one) for one in order_of(request).instances)
    await desk.ledger.write(*instances, Put(PendingRequest(request, at_s)))


async def settle(*desks: Desk, seconds: float = 60.0) -> None:
    """Let the schedulers work for a while."""
    loops = [loop for desk in desks for loop in (desk.follower.run, desk.pending.run)]
    async with running(*loops):
        await asyncio.sleep(seconds)


async def instance(desk: Desk, number: int = 1) -> Instance:
    """Return `vm-N` from the ledger."""
    found = await desk.ledger.get(Instance, make_uuid("instance", number))
    assert found is not None
    return found


async def is_pending(desk: Desk, request_id: str = "req-1") -> bool:
    """Return whether a request is pending in the ledger."""
    return await desk.ledger.get(PendingRequest, request_id) is not None


async def test_what_is_pending_is_placed() -> None:
    """A request that comes while the scheduler runs is placed immediately."""
    desk = await open_desk()
    async with running(desk.follower.run, desk.pending.run):
        await asyncio.sleep(5)
        await accept(desk, make_request(count=2))
        await asyncio.sleep(0.1)
        assert not await is_pending(desk)
    assert [(await instance(desk, n)).task for n in (1, 2)] == [Task.SPAWNING] * 2


async def test_what_was_pending_at_the_start_is_placed() -> None:
    """A request that is pending at the start is placed."""
    desk = await open_desk()
    await accept(desk, make_request())
    second = await open_second(desk)
    await settle(second, seconds=1)
    assert not await is_pending(desk)


async def test_a_run_that_is_started_again_takes_up_everything() -> None:
    """A run that was cancelled in the middle is resumed without loss."""
    desk = await open_desk()
    for number in (1, 2):
        await accept(desk, make_request(number))
    desk.ledger.gate = asyncio.Event()
    await settle(desk, seconds=1)
    assert (await is_pending(desk), desk.replica.held) == (True, 0)
    desk.ledger.gate = None
    await settle(desk, seconds=1)
    assert not await is_pending(desk, "req-1")
    assert not await is_pending(desk, "req-2")


async def test_the_oldest_comes_first() -> None:
    """The request that was accepted first is placed first."""
    desk = await open_desk(Fleet(hosts=1, vcpus=1))
    await accept(desk, make_request(1), at_s=20.0)
    await accept(desk, make_request(2), at_s=10.0)
    await desk.follower.catch_up()
    await settle(desk)
    assert [(await instance(desk, n)).status for n in (1, 2)] == [Status.ERROR, Status.BUILD]


async def test_two_schedulers_place_a_request_once() -> None:
    """Two schedulers place each request once."""
    desk = await open_desk()
    second = await open_second(desk)
    for number in range(1, 9):
        await accept(desk, make_request(number))
    await settle(desk, second)
    used = [await desk.ledger.used(n) for n in (1, 2)]
    assert sum(one[VCPU] for one in used) == 8
    for one in (desk, second):
        assert one.replica.held == 0
        assert one.replica.pending == {}


async def test_a_deleted_instance_is_not_placed() -> None:
    """An instance that is deleted while its request waits is left out."""
    desk = await open_desk()
    await accept(desk, make_request(count=2))
    await desk.instances.delete(make_uuid("instance", 1))
    await settle(desk)
    assert not await is_pending(desk)
    assert (await instance(desk, 1)).status is Status.DELETED
    assert (await instance(desk, 2)).task is Task.SPAWNING


async def test_a_request_of_deleted_instances_goes_away() -> None:
    """A request whose instances are all deleted is removed without a decision."""
    desk = await open_desk()
    await accept(desk, make_request())
    await desk.instances.delete(make_uuid("instance", 1))
    await settle(desk)
    assert not await is_pending(desk)
    assert await desk.ledger.get(Decision, "req-1") is None
    assert desk.pending._backoff.delay_s("req-2") == 0


async def test_an_instance_deleted_during_the_decision_is_not_placed() -> None:
    """An instance that is deleted during the decision is not placed."""
    desk = await open_desk()
    await accept(desk, make_request(count=2))
    desk.ledger.gate = asyncio.Event()
    async with running(desk.follower.run, desk.pending.run):
        await asyncio.sleep(0.1)
        gate, desk.ledger.gate = desk.ledger.gate, None
        await desk.instances.delete(make_uuid("instance", 1))
        gate.set()
        await asyncio.sleep(5)
    assert (await instance(desk, 1)).status is Status.DELETED
    assert (await instance(desk, 2)).task is Task.SPAWNING
    assert desk.replica.held == 0


async def test_a_request_that_cannot_be_read_is_given_up_with_the_reason() -> None:
    """An invalid request is given up, and the fault names the extra spec."""
    desk = await open_desk()
    flavor = replace(make_flavor(), extra_specs={"resources:VCPU": "many"})
    await accept(desk, replace(make_request(), flavor=flavor))
    await settle(desk)
    assert not await is_pending(desk)
    found = await instance(desk)
    assert found.fault is not None
    assert (found.status, found.fault.code) == (Status.ERROR, 400)
    assert "resources:VCPU" in found.fault.message


async def test_a_ledger_that_is_away_for_a_while_stops_nothing() -> None:
    """Pending requests are tried again until the ledger can be reached."""
    desk = await open_desk()
    for number in (1, 2, 3):
        await accept(desk, make_request(number))
    desk.ledger.away = 7
    await settle(desk)
    assert [(await instance(desk, n)).task for n in (1, 2, 3)] == [Task.SPAWNING] * 3
    assert set(desk.told.failed) == {"pending_request_failed"}


async def test_a_request_waits_while_the_silence_of_hosts_proves_nothing() -> None:
    """The request is reported once, and placed as soon as hosts report again."""
    desk = await open_desk(Fleet(hosts=3))
    await asyncio.sleep(200)
    with pytest.raises(UncertainFleetError, match="req-1 waits, because 3 of 3 hosts fell silent"):
        await desk.placer.place(order_of(make_request()))
    await accept(desk, make_request())
    await settle(desk, seconds=100)
    assert await is_pending(desk)
    assert (await instance(desk)).status is Status.BUILD
    assert desk.told.events.count("pending_request_deferred") == 1
    assert not desk.told.failures
    desk.liveness.note("host-2")
    await settle(desk)
    assert not await is_pending(desk)
    assert (await instance(desk)).host is not None


async def test_a_request_that_finds_no_host_among_living_ones_is_refused() -> None:
    """The silence of a few hosts, and of hosts that an operator took away, proves something."""
    desk = await open_desk(Fleet(hosts=3))
    await asyncio.sleep(200)
    desk.liveness.note("host-1")
    for host in ("host-2", "host-3"):
        await desk.hosts.set_service(host, forced_down=True)
    await desk.follower.catch_up()
    huge = replace(make_request(), flavor=make_flavor(vcpus=1_000))
    decision = await desk.placer.place(order_of(huge))
    assert decision.refusal is not None


async def test_a_lost_answer_is_asked_for_again() -> None:
    """A commit whose answer is lost is not placed twice."""
    desk = await open_desk()
    await accept(desk, make_request())
    desk.ledger.silent = 1
    await settle(desk)
    used = [await desk.ledger.used(n) for n in (1, 2)]
    assert sum(one.get(VCPU, 0) for one in used) == 1
    assert not await is_pending(desk)


async def test_a_mistake_in_the_code_stops_only_its_request() -> None:
    """An unexpected error stops only its own request, which is tried again."""
    desk = await open_desk()
    desk.policies.mistakes = 2
    for number in (1, 2, 3):
        await accept(desk, make_request(number))
    await settle(desk)
    assert [(await instance(desk, n)).task for n in (1, 2, 3)] == [Task.SPAWNING] * 3
    assert len(desk.told.failures) == 2


async def test_a_request_that_always_fails_is_given_up() -> None:
    """A request that keeps failing is given up with an error."""
    desk = await open_desk()
    desk.policies.mistakes = 10**6
    await accept(desk, make_request())
    await settle(desk, seconds=300)
    found = await instance(desk)
    assert found.fault is not None
    assert (found.status, found.fault.code) == (Status.ERROR, 500)
    assert not await is_pending(desk)


async def test_a_request_id_that_was_used_before_is_given_up() -> None:
    """A request whose id belongs to another decision is given up."""
    desk = await open_desk()
    await desk.ledger.write(Put(make_decision(1)))
    await accept(desk, make_request(1))
    await settle(desk)
    found = await instance(desk)
    assert found.fault is not None
    assert "used for another request" in found.fault.message
    assert not await is_pending(desk)


async def test_a_request_that_another_has_finished_is_dropped() -> None:
    """A request that is removed from the ledger is not tried again."""
    desk = await open_desk()
    await accept(desk, make_request())
    desk.ledger.away = 10**6
    async with running(desk.follower.run, desk.pending.run):
        await asyncio.sleep(5)
        await desk.ledger.write(Remove(Kind.PENDING_REQUEST, "req-1"))
        await asyncio.sleep(20)
        tries = len(desk.told.failures)
        await asyncio.sleep(100)
        assert len(desk.told.failures) == tries
        assert desk.pending._at_work == set()


@pytest.mark.parametrize("count", [400])
async def test_a_flood_is_worked_off(count: int) -> None:
    """More requests than are processed simultaneously are all decided."""
    desk = await open_desk(Fleet(hosts=4, vcpus=64))
    for number in range(1, count + 1):
        await accept(desk, make_request(number))
    await settle(desk)
    assert desk.replica.pending == {}
    statuses = [(await instance(desk, n)).status for n in range(1, count + 1)]
    assert statuses.count(Status.BUILD) == 256
    assert statuses.count(Status.ERROR) == count - 256


async def test_an_operation_that_only_a_newer_version_knows_waits_for_one() -> None:
    """A request with an unknown operation stays pending and does not block others."""
    desk = await open_desk()
    await accept(desk, replace(make_request(1), operation=Operation("teleport")))
    await accept(desk, make_request(2), at_s=1.0)
    await settle(desk)
    assert await is_pending(desk, "req-1")
    assert not await is_pending(desk, "req-2")
    assert (await instance(desk, 1)).task is Task.SCHEDULING


async def test_of_several_schedulers_few_take_up_a_request_in_vain() -> None:
    """Several schedulers decide most requests only once."""
    desk = await open_desk(Fleet(hosts=12, vcpus=400))
    everybody = [desk, *[await open_second(desk) for _ in range(3)]]
    decided: list[str] = []
    for number, one in enumerate(everybody):
        one.pending._backoff = Backoff(f"scheduler {number}")
        one.placer._on_overtaken = one.pending._backoff.note_rival
        one.decision_service = one.placer._decision_service = CountingDeciding(one, decided)
    loops = [loop for one in everybody for loop in (one.follower.run, one.pending.run)]
    async with running(*loops):
        for number in range(1, 41):
            await accept(desk, make_request(number))
            await asyncio.sleep(1)
    assert len(set(decided)) == 40
    assert len(decided) < 60
