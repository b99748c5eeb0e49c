"""What agents are told of their hosts equals the ledger, whatever changes while they connect."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from berth.domain.compute.instance import Instance, Status
from berth.domain.ledger.write import Put
from berth.ports.gateway import HostView
from berth.ports.ledger import InstanceQuery
from berth.services.gateway.assignments import Assignments
from berth.testing.builders import make_instance, make_service
from tests.unit.services.wiring import Desk, TappedLedger

HOSTS = ("host-1", "host-2")
NUMBERS = (1, 2, 3)

Step = tuple[str, int, str]


class _SlowLedger(TappedLedger):
    """A ledger whose lists of instances are outdated when the caller resumes."""

    def __init__(self) -> None:
        super().__init__()
        self.released = asyncio.Event()

    async def instances(self, query: InstanceQuery) -> list[Instance]:
        """Return instances as they were when this was called."""
        found = await super().instances(query)
        await self.released.wait()
        return found


class _Agent:
    """What one agent knows after the views that it got."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.instances: dict[str, Instance] = {}

    def take(self, view: HostView) -> None:
        """Replace or update what is known."""
        if view.is_complete:
            self.instances.clear()
        for instance in view.instances:
            self.instances.pop(instance.uuid, None)
            if instance.host == self.host and instance.status is not Status.DELETED:
                self.instances[instance.uuid] = instance


class _World:
    """A gateway, its ledger, and the agents that connect to it."""

    def __init__(self) -> None:
        self.ledger = _SlowLedger()
        self.desk = Desk(self.ledger)
        self.assignments = Assignments(self.ledger, self.desk.replica)
        self.desk.follower.subscribers.append(self.assignments)
        self.agents: list[_Agent] = []
        self.opening: list[asyncio.Task[object]] = []

    async def do(self, step: Step) -> None:
        """Take a step."""
        what, number, host = step
        match what:
            case "put" | "delete":
                status = Status.DELETED if what == "delete" else Status.ACTIVE
                await self._put(replace(make_instance(number, host=host), status=status))
            case "connect":
                agent = _Agent(host)
                self.agents.append(agent)
                opening = self.assignments.open(host, agent.take, deletes_disks=False)
                self.opening.append(asyncio.ensure_future(opening))
                await asyncio.sleep(0)
            case "reload":
                await self.desk.follower.start()
            case _:
                await self.desk.follower.catch_up()

    async def settle(self) -> None:
        """Let the reads end, and check what the agents know."""
        self.ledger.released.set()
        await asyncio.gather(*self.opening)
        await self.desk.follower.catch_up()
        for agent in self.agents:
            here = await self.ledger.instances(InstanceQuery(host=agent.host))
            assert agent.instances == {one.uuid: one for one in here}
        self.ledger.released.clear()

    async def _put(self, instance: Instance) -> None:
        before = await self.ledger.get(Instance, instance.uuid)
        await self.ledger.write(Put(replace(instance, revision=before.revision if before else 0)))


async def _check(rounds: Sequence[Sequence[Step]]) -> None:
    world = _World()
    await world.ledger.write(*(Put(make_service(number)) for number in (1, 2)))
    await world.desk.follower.start()
    for steps in rounds:
        for step in steps:
            await world.do(step)
        await world.settle()


_steps = st.tuples(
    st.sampled_from(("put", "put", "delete", "connect", "connect", "catch up", "reload")),
    st.sampled_from(NUMBERS),
    st.sampled_from(HOSTS),
)


@example(  # a departure that the feed brings while the view is read
    [
        [("put", 1, "host-1")],
        [("connect", 1, "host-1"), ("put", 1, "host-2"), ("catch up", 1, "host-1")],
    ]
)
@given(st.lists(st.lists(_steps, max_size=8), max_size=4))
@settings(max_examples=200, deadline=None)
def test_an_agent_knows_what_the_ledger_has_on_its_host(rounds: list[list[Step]]) -> None:
    """Changes, departures and deletions during the read of the first view are not lost."""
    asyncio.run(_check(rounds))
