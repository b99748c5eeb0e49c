"""Laws of the audit: it finds nothing in an undamaged cloud, and finds freed allocations."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from berth.adapters.virt.fake import DriverFaults, FakeHost
from berth.domain.compute import lifecycle
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.instance_action import Caller
from berth.domain.errors import ConflictError, InvalidInputError, NotFoundError
from berth.domain.ledger.discrepancy import AuditAges, AuditReport, DiscrepancyCode
from berth.domain.ledger.write import Free
from berth.ports.ledger import InstanceQuery
from berth.services.auditing import AuditService
from berth.services.servers.moves import MoveTarget
from berth.services.servers.operations import Operations
from berth.testing.builders import make_request, make_uuid
from berth.testing.virtual_time import run_virtually
from tests.unit.lifecycle.town import BIG, DOWN_S, Town, caller, open_town
from tests.unit.services.wiring import order_of, running

INSTANCES = 2
LOOKS = 10
"""The number of audits after each step."""
MID_WAY = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
FAILING = ("stop", "fetch_disks", "spawn", "take_in", "hand_over")
SLOW = (*FAILING, "destroy")
_BEGUN = {
    "stop": lifecycle.STOP,
    "start": lifecycle.START,
    "shelve": lifecycle.SHELVE,
    "rebuild": lifecycle.REBUILD,
}
Ask = Callable[[Operations, str, Caller], Awaitable[object]]
_ASKED: Mapping[str, Ask] = {
    "resize": lambda operations, uuid, by: operations.resize(uuid, BIG, by),
    "migrate": lambda operations, uuid, by: operations.migrate(uuid, MoveTarget(), by),
    "live_migrate": lambda operations, uuid, by: operations.live_migrate(uuid, MoveTarget(), by),
    "confirm": lambda operations, uuid, by: operations.confirm(
        uuid, by, service_down_time_s=DOWN_S
    ),
    "revert": lambda operations, uuid, by: operations.revert(uuid, by, service_down_time_s=DOWN_S),
    "unshelve": lambda operations, uuid, by: operations.unshelve(uuid, MoveTarget(), by),
    "reset": lambda operations, uuid, by: operations.reset_state(uuid, Status.ACTIVE, by),
}
Step = tuple[str, int, float]
"""An operation, the number of its instance, and the seconds until the next operation."""

_COURSES = [
    *(("create",), ("delete",), *((name,) for name in (*_BEGUN, *_ASKED))),
    *((move, end) for move in ("resize", "migrate") for end in ("confirm", "revert")),
    ("shelve", "unshelve"),
    ("live_migrate", "live_migrate"),
]


@st.composite
def histories(draw: st.DrawFn, courses_max: int) -> list[Step]:
    """Draw operations on some instances, often in an order in which they can succeed."""
    steps: list[Step] = [("create", 1, 30.0)]
    for _ in range(draw(st.integers(1, courses_max))):
        number = draw(st.integers(1, INSTANCES))
        pauses = st.sampled_from([30.0, 30.0, 8.0, 1.0])
        steps += [(what, number, draw(pauses)) for what in draw(st.sampled_from(_COURSES))]
    return steps


async def slow_town(seed: int) -> Town:
    """Open a town whose drivers take 5 s for some operations and fail a fifth of most of these."""
    faults = DriverFaults(
        delay_s=dict.fromkeys(SLOW, 5.0), share=dict.fromkeys(FAILING, 0.2), seed=seed
    )
    town = await open_town(*(FakeHost(f"host-{number}", faults=faults) for number in (1, 2, 3)))
    await town.flavor()
    return town


async def ask(town: Town, what: str, number: int, request: int) -> None:
    """Request one operation; raise if the state of the instance forbids it."""
    uuid, by = make_uuid("instance", number), caller(request)
    if what == "create":
        await create(town, number)
    elif what == "delete":
        await town.desk.instances.delete(uuid)
    elif what in _BEGUN:
        await town.operations.begin(uuid, _BEGUN[what], by)
    else:
        await _ASKED[what](town.operations, uuid, by)


async def create(town: Town, number: int) -> None:
    """Place an instance unless it exists."""
    if await town.ledger.get(Instance, make_uuid("instance", number)) is None:
        await town.desk.placer.place(order_of(make_request(number)))


async def live(town: Town, steps: list[Step], auditing: AuditService) -> None:
    """Run a history in a town, and check that audits after each step find nothing."""
    loops = (town.desk.follower.run, town.desk.pending.run, town.pool.run)
    async with running(*loops):
        for request, (what, number, pause_s) in enumerate(steps, 1):
            try:
                await ask(town, what, number, request)
            except (ConflictError, InvalidInputError, NotFoundError):
                continue
            for _ in range(LOOKS):
                await asyncio.sleep(pause_s / LOOKS)
                assert (await audit(auditing)).discrepancies == ()
        await asyncio.sleep(300.0)


async def audit(auditing: AuditService, *, mends: bool = False) -> AuditReport:
    """Return an audit's report, with a grace period of 0."""
    ages = AuditAges(grace_s=0.0)
    return await auditing.audit(ages, service_down_time_s=DOWN_S, mends=mends)


def auditing_of(town: Town) -> AuditService:
    """Return the audit service of a town."""
    return AuditService(
        ledger=town.ledger,
        replica=town.desk.replica,
        clock=town.desk.clock,
        telemetry=town.desk.told,
        first_seen_s={},
    )


@MID_WAY
@given(histories(8), st.integers(0, 9))
def test_a_cloud_that_keeps_to_the_rules_is_clean(steps: list[Step], seed: int) -> None:
    """Audits during and after a random history find no discrepancy and nothing lost."""

    async def main() -> None:
        town = await slow_town(seed)
        auditing = auditing_of(town)
        await live(town, steps, auditing)
        report = await audit(auditing)
        assert (report.discrepancies, report.lost) == ((), {})

    run_virtually(main)


@MID_WAY
@given(histories(4))
def test_what_was_taken_away_is_found_and_mended(
    steps: list[Step],
) -> None:
    """An audit finds the freed allocations of all instances, and restores them when it mends."""

    async def main() -> None:
        town = await open_town()
        await town.flavor()
        auditing = auditing_of(town)
        await live(town, steps, auditing)
        before = await town.ledger.allocations()
        for one in await town.ledger.instances(InstanceQuery()):
            await town.ledger.write(Free(one.uuid))
        lost = {one.key for one in (await audit(auditing)).discrepancies}
        assert lost == {
            one.consumer_uuid
            for one in before
            if await town.ledger.get(Instance, one.consumer_uuid) is not None
        }
        report = await audit(auditing, mends=True)
        assert all(one.code is DiscrepancyCode.MISSING_ALLOCATION for one in report.discrepancies)
        assert all(one.is_repaired for one in report.discrepancies)
        assert await town.ledger.allocations() == before

    run_virtually(main)
