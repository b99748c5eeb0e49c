"""`berth doctor` on a real PostgreSQL and a real RabbitMQ."""

import asyncio
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from yarl import URL

from berth.adapters.bus.rabbitmq import RabbitBroker
from berth.adapters.bus.rabbitmq.broker_probe import misdeclared_queues, probe_broker
from berth.adapters.bus.rabbitmq.connection import open_connection
from berth.adapters.ledger import migrate
from berth.adapters.ledger.examination import examine_store
from berth.adapters.ledger.postgres.postgres_servers import examine_servers
from berth.app.doctor import Status, diagnose
from berth.config.settings import LedgerSettings, Settings
from berth.domain.errors import UnavailableError


def checked(url: str, folder: Path) -> dict[str, Status]:
    """Return the status of each check of a ledger; of several results, the last one."""
    settings = Settings(ledger=LedgerSettings(url=url, data_dir=folder))
    return {one.check: one.status for one in asyncio.run(diagnose(settings))}


def test_postgres_is_examined(fresh_postgres_url: str, tmp_path: Path) -> None:
    """Schema, writes and the clock are in order; the tests' databases do not flush commits."""
    asyncio.run(migrate(fresh_postgres_url))
    found = checked(fresh_postgres_url, tmp_path)
    assert [found[name] for name in ("schema", "ledger", "clock")] == [Status.OK] * 3
    assert found["durability"] is Status.FAIL
    facts = asyncio.run(examine_store(fresh_postgres_url))
    assert facts.store.startswith("PostgreSQL ")
    assert facts.settings["synchronous_commit"] == "off"
    assert 0 < facts.connections < int(facts.settings["max_connections"])


def test_a_database_without_tables_is_a_warning(bare_postgres_url: str, tmp_path: Path) -> None:
    """The tables are not created by the examination."""
    for _ in range(2):
        assert checked(bare_postgres_url, tmp_path)["ledger"] is Status.WARN


def test_an_unreachable_database_fails(tmp_path: Path) -> None:
    """Nothing listens on the port."""
    assert checked("postgresql://u:p@127.0.0.1:1/d", tmp_path)["ledger"] is Status.FAIL


def test_a_broker_is_probed(broker: RabbitBroker) -> None:
    """The message arrives, and a second probe finds no trace of the first."""
    for _ in range(2):
        version = asyncio.run(probe_broker(broker))
        assert version[0].isdigit()


def test_a_refused_user_is_found(broker: RabbitBroker) -> None:
    """A wrong password is an error that does not contain it."""
    wrong = f"wrong-{secrets.token_hex(4)}"
    refused = replace(broker, url=str(URL(broker.url).with_password(wrong)))
    with pytest.raises(UnavailableError) as caught:
        asyncio.run(probe_broker(refused))
    assert wrong not in str(caught.value)


def test_a_missing_virtual_host_is_named(broker: RabbitBroker) -> None:
    """The advice says how to create it."""
    url = str(URL(broker.url).with_path("/no-such-host"))
    with pytest.raises(UnavailableError, match="refuses the virtual host; create it"):
        asyncio.run(probe_broker(replace(broker, url=url)))


def test_roles_of_a_server_are_examined(fresh_postgres_url: str) -> None:
    """A server without standbys is a primary with a timeline; its address has no account."""
    (state,) = asyncio.run(examine_servers(fresh_postgres_url))
    assert (state.error, state.is_standby, state.replicas) == ("", False, ())
    assert state.timeline >= 1
    assert "@" not in state.address


def test_queues_of_another_type_are_found(broker: RabbitBroker) -> None:
    """A classic queue in place of a quorum queue is found; a missing one is not created."""
    wrong, right, missing = (f"{broker.prefix}.{one}" for one in ("wrong", "right", "missing"))
    quorum: dict[str, Any] = {"x-queue-type": "quorum"}

    async def run() -> tuple[dict[str, str], dict[str, str]]:
        connection = await open_connection(broker)
        channel = await connection.channel()
        await channel.declare_queue(wrong, durable=True)
        await channel.declare_queue(right, durable=True, arguments=quorum)
        try:
            asked = dict.fromkeys((wrong, right, missing), quorum)
            return await misdeclared_queues(broker, asked), await misdeclared_queues(broker, asked)
        finally:
            await channel.queue_delete(wrong)
            await channel.queue_delete(right)
            await connection.close()

    for found in asyncio.run(run()):
        assert list(found) == [wrong]
        assert "x-queue-type" in found[wrong]
