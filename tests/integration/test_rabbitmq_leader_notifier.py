"""Of several processes with the same events, only the leader sends notifications."""

import asyncio
from random import Random

import pytest
from yarl import URL

from berth.adapters.bus.rabbitmq import (
    BrokerConnection,
    LeaderNotifier,
    RabbitBroker,
    RabbitNotifier,
)
from berth.adapters.bus.rabbitmq.connection import BrokerSession
from tests.integration.rabbitmq_reading import behind, reading, take
from tests.proxy import proxying
from tests.rabbit import running, until
from tests.unit.services.wiring import Told

pytestmark = pytest.mark.rabbitmq


def teller_of(broker: RabbitBroker, name: str) -> tuple[BrokerConnection, LeaderNotifier]:
    """Return a process's broker connection and its notifier."""
    line = BrokerConnection(broker, Told(), Random())
    return line, LeaderNotifier(RabbitNotifier(line, name), line)


async def test_one_of_two_tells_and_the_other_takes_over(broker: RabbitBroker) -> None:
    """Each event is sent, once or with the same id, also when the leader loses its connection."""
    url = URL(broker.url)
    async with proxying(url.host or "", url.port or 5672) as proxy:
        first_line, first = teller_of(behind(proxy, broker), "first")
        second_line, second = teller_of(broker, "second")

        def happen(number: int) -> None:
            for teller in (first, second):
                teller.notify("host.update", {"number": number}, key=f"{number}")

        async with running(first_line), reading(broker, "#") as queue:
            await until(lambda: first.leads)
            async with running(second_line):
                for number in range(5):
                    happen(number)
                told = await take(queue, 5)
                assert [one["payload"]["number"] for one in told] == [0, 1, 2, 3, 4]
                assert not second.leads
                proxy.is_closed = True
                await proxy.cut()
                for number in range(5, 10):
                    happen(number)
                await until(lambda: second.leads)
                happen(10)
                told = await take(queue, 11)
                assert {one["payload"]["number"] for one in told} == {*range(11)}
                assert len({one["message_id"] for one in told}) == 11
                proxy.is_closed = False
                await until(first_line.up.is_set)
                await asyncio.sleep(0.1)
                assert not first.leads


class _Sessions:
    """Remembers the newest session of a connection."""

    def __init__(self, connection: BrokerConnection) -> None:
        self.newest: BrokerSession | None = None
        connection.listeners.append(self)

    async def on_connected(self, session: BrokerSession) -> None:
        """See `SessionListener.on_connected`."""
        self.newest = session

    def on_disconnected(self, reason: str) -> None:
        """See `SessionListener.on_disconnected`."""


async def test_only_one_leads_after_the_queue_was_deleted(broker: RabbitBroker) -> None:
    """An operator or a policy of the broker may delete the leader's queue.

    Before, the old leader kept publishing beside the new one, so every notification came twice.
    """
    first_line, first = teller_of(broker, "first")
    sessions = _Sessions(first_line)
    second_line, second = teller_of(broker, "second")
    async with running(first_line), reading(broker, "#") as queue:
        await until(lambda: first.leads)
        async with running(second_line):
            assert sessions.newest is not None
            # Only the connection that declared an exclusive queue may delete it by AMQP.
            channel = await sessions.newest.spare_channel()
            await channel.queue_delete(f"{broker.prefix}.notifier")
            await until(lambda: not first.leads or second.leads)
            await until(lambda: first.leads != second.leads)
            await until(first_line.up.is_set)
            assert first.leads != second.leads
            for teller in (first, second):
                teller.notify("host.update", {"number": 1}, key="1")
            (told,) = await take(queue, 1)
            assert told["payload"]["number"] == 1
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(take(queue, 1), 0.5)


async def test_what_another_has_told_is_not_kept_for_ever(broker: RabbitBroker) -> None:
    """A notifier that does not lead keeps only the notifications of the last minute."""
    now_s = 1_000.0
    line, _ = teller_of(broker, "teller")
    other_line = BrokerConnection(broker, Told(), Random())
    other = LeaderNotifier(RabbitNotifier(other_line, "x"), other_line, now_s=lambda: now_s)
    async with running(line), running(other_line):
        await asyncio.sleep(0.1)
        for _ in range(10):
            other.notify("host.update", {}, key="k")
            now_s += 20.0
        assert not other.leads
        assert len(other._kept) == 4
