"""A scheduler's tracker beside one agent's teller, on a ledger with two hosts."""

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
    """Metrics that a test can read: sums by the labels."""

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}

    def add(self, measure: object, labels: tuple[str, ...] = (), amount: float = 1.0) -> None:
        """Add to a sum."""
        self.sums[labels[0]] = self.sums.get(labels[0], 0.0) + amount

    def observe(self, measure: object, value: float, labels: tuple[str, ...] = ()) -> None:
        """Forget an observation."""


class CountedReads:
    """A ledger whose reads of instances are counted, and may be cut off.

    Attributes:
        reads: how many lists were read.
        is_away: reads of lists fail.
    """

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger
        self.reads: list[str | None] = []
        self.is_away = False

    async def instances(self, query: InstanceQuery) -> list[Instance]:
        """Read instances."""
        if self.is_away:
            raise UnavailableError("the ledger is away")
        self.reads.append(query.host)
        return await self._ledger.instances(query)

    def __getattr__(self, name: str) -> object:
        """Do anything else as the ledger does."""
        return getattr(self._ledger, name)


class Wiretap:
    """A bus that keeps what is cast; a test hands it on as it likes."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.is_away = False

    async def fanout(self, command: object, args: Message) -> None:
        """Keep a message."""
        if self.is_away:
            raise UnavailableError("the broker is away")
        self.sent.append(args)


class Rig:
    """A tracker, and a teller for `host-1`; neither runs by itself."""

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
        """Start the agent of `host-1`, which follows the ledger by itself."""
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
        """Commit an instance, and have both sides hear of it by the feed."""
        known = await self.desk.ledger.get(Instance, make_instance(number).uuid)
        at = {"host": host, "node": host}
        base = known or replace(make_instance(number), task=None, status=Status.ACTIVE)
        one = replace(base, **{**at, **state})  # type: ignore[arg-type]
        await self.desk.ledger.write(Put(one))
        await self.agent.catch_up()
        return one

    async def told(self) -> list[Message]:
        """Have the agent tell what it has to, and return that without handing it on."""
        for host in list(self.teller._due):
            await self.teller._send_changes(host)
        sent, self.tap.sent = self.tap.sent, []
        return sent

    async def synced(self) -> Message:
        """Have the agent sync, and return that without handing it on."""
        await self.teller._sync(HOST)
        return self.tap.sent.pop()

    def hear(self, *messages: Message) -> None:
        """Hand messages to the tracker."""
        for message in messages:
            self.tracker.hear(message)

    async def follow(self) -> None:
        """Have the scheduler catch up with the feed."""
        await self.desk.follower.catch_up()

    def here(self, name: str = HOST) -> set[str]:
        """Return the instances that the scheduler's table has on a host."""
        hosts = self.desk.replica.hosts
        (row,) = hosts.rows_of_name(name)
        return set(hosts.occupants.on_row(row))


def relabelled(message: Message, **head: object) -> Message:
    """Return a message with another head."""
    changed: MessageHead = replace(message.head, **head)  # type: ignore[arg-type]
    return replace(message, head=changed)


async def open_rig(*, by_casts: bool) -> Rig:
    """Make a rig whose agent has told its empty list, which was heard."""
    rig = Rig(await open_desk(), by_casts=by_casts)
    await rig.desk.follower.start()
    await rig.start_agent()
    rig.hear(*await rig.told())
    return rig
