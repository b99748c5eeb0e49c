"""A scheduler's tracker and one agent's caster on a ledger with two hosts."""

from dataclasses import replace
from random import Random

from berth.adapters.ledger import MemoryLedger
from berth.agent.instance_casts import InstanceCaster
from berth.domain.compute.instance import Instance, Status
from berth.domain.errors import UnavailableError
from berth.domain.ledger.write import Put
from berth.ports.ledger import InstanceQuery
from berth.services.replica.follower import Follower
from berth.services.tracking import InstanceTracker, LedgerView, TrackingPace
from berth.services.tracking.messages import Message, MessageHead
from berth.testing.builders import make_instance
from tests.unit.services.wiring import Desk, open_desk

HOST = "host-1"
SYNC_S = 100.0


class RowTally:
    """Metrics that record sums by the first label."""

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}

    def add(self, measure: object, labels: tuple[str, ...] = (), amount: float = 1.0) -> None:
        """Add the amount to the sum of the label."""
        self.sums[labels[0]] = self.sums.get(labels[0], 0.0) + amount

    def observe(self, measure: object, value: float, labels: tuple[str, ...] = ()) -> None:
        """Ignore the observation."""


class CountedReads:
    """A ledger that records reads of instances and can fail them.

    Attributes:
        reads: the host of each list that was read.
        is_away: whether reads of lists fail.
    """

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger
        self.reads: list[str | None] = []
        self.is_away = False

    async def instances(self, query: InstanceQuery) -> list[Instance]:
        """Return instances and record the read."""
        if self.is_away:
            raise UnavailableError("the ledger is away")
        self.reads.append(query.host)
        return await self._ledger.instances(query)

    def __getattr__(self, name: str) -> object:
        """Return any other attribute of the ledger."""
        return getattr(self._ledger, name)


class Wiretap:
    """A bus that keeps casts, which a test may deliver."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.is_away = False

    async def fanout(self, command: object, args: Message) -> None:
        """Keep the message."""
        if self.is_away:
            raise UnavailableError("the broker is away")
        self.sent.append(args)


class Rig:
    """A tracker and the caster of `host-1`, neither of which runs by itself."""

    def __init__(self, desk: Desk, *, by_casts: bool) -> None:
        self.desk = desk
        self.reads = CountedReads(desk.ledger)
        self.tally = RowTally()
        view = LedgerView(self.reads, desk.follower, desk.replica)  # type: ignore[arg-type]
        self.tracker = InstanceTracker(
            view,
            desk.policies,
            desk.clock,
            desk.told,
            TrackingPace(SYNC_S),
            by_casts=by_casts,
            metrics=self.tally,
        )
        desk.follower.subscribers.append(self.tracker)
        desk.placer._tracker = self.tracker
        self.tap = Wiretap()
        self.starts = 0

    async def start_agent(self) -> None:
        """Start the agent of `host-1`, which follows the ledger."""
        self.starts += 1
        self.teller = InstanceCaster(
            [HOST],
            self.tap,  # type: ignore[arg-type] # it casts, and nothing else
            self.desk.clock,
            self.desk.told,
            Random(1),
            session=f"session-{self.starts}",
            sync_interval_s=SYNC_S,
        )
        self.agent = Follower(self.desk.ledger, self.desk.clock, [self.teller])
        await self.agent.start()

    async def put(self, number: int = 1, *, host: str | None = HOST, **state: object) -> Instance:
        """Commit an instance, let the agent catch up, and return the instance."""
        known = await self.desk.ledger.get(Instance, make_instance(number).uuid)
        at = {"host": host, "node": host}
        base = known or replace(make_instance(number), task=None, status=Status.ACTIVE)
        one = replace(base, **{**at, **state})  # type: ignore[arg-type]
        await self.desk.ledger.write(Put(one))
        await self.agent.catch_up()
        return one

    async def told(self) -> list[Message]:
        """Return the changes that the agent has to send, without delivering them."""
        for host in list(self.teller._due):
            await self.teller._send_changes(host)
        sent, self.tap.sent = self.tap.sent, []
        return sent

    async def synced(self) -> Message:
        """Return the agent's sync message without delivering it."""
        await self.teller._sync(HOST)
        return self.tap.sent.pop()

    def hear(self, *messages: Message) -> None:
        """Deliver messages to the tracker."""
        for message in messages:
            self.tracker.hear(message)

    async def follow(self) -> None:
        """Let the scheduler catch up with the feed."""
        await self.desk.follower.catch_up()

    def here(self, name: str = HOST) -> set[str]:
        """Return the instances on a host in the scheduler's table."""
        hosts = self.desk.replica.hosts
        (row,) = hosts.host_names.of_name(name)
        return set(hosts.occupants.on_row(row))


def relabelled(message: Message, **head: object) -> Message:
    """Return the message with changed fields of its head."""
    changed: MessageHead = replace(message.head, **head)  # type: ignore[arg-type]
    return replace(message, head=changed)


async def open_rig(*, by_casts: bool) -> Rig:
    """Return a rig whose agent has sent its empty list."""
    rig = Rig(await open_desk(), by_casts=by_casts)
    await rig.desk.follower.start()
    await rig.start_agent()
    rig.hear(*await rig.told())
    return rig
