"""An API and schedulers that communicate over RabbitMQ."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import aio_pika
import msgspec
import pytest
from yarl import URL

from berth.adapters.bus.rabbitmq import RabbitBroker
from tests.e2e.conftest import Part, Processes, Service
from tests.proxy import Proxy, proxying

pytestmark = pytest.mark.rabbitmq

_HOSTS = 4
_SERVERS = 40


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Yield the URL of a SQLite or a PostgreSQL ledger."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'berth.sqlite'}"
    else:
        url: str = request.getfixturevalue("fresh_postgres_url")
        yield url


def settings_file(
    folder: Path, broker: RabbitBroker, url: str, *, notifications: bool = False
) -> str:
    """Write a settings file with a broker and return its path."""
    path = folder / f"berth-{URL(url).port}.toml"
    told = "true" if notifications else "false"
    path.write_text(f'[bus]\nurl = "{url}"\nprefix = "{broker.prefix}"\nnotifications = {told}\n')
    return str(path)


def start_api(processes: Processes, service: Service, ledger: str, config: str) -> Part:
    """Start an API and a fleet, create a flavor, and return the API."""
    address = service.url.removeprefix("http://")
    api = processes.start("api", "--listen", address, "--ledger", ledger, "--config", config)
    service.wait_until(lambda status: True, api)
    processes.start("agent", "--ledger", ledger, "--fake-hosts", f"{_HOSTS}")
    service.wait_until(lambda status: status["hosts"]["total"] == _HOSTS, api)
    service.flavor("small", vcpus=1, ram=512)
    return api


def used_vcpus(service: Service) -> int:
    """Return the used VCPUs of all hosts."""
    hosts: list[dict[str, Any]] = service.get("/berth/v1/hosts")["hosts"]
    return sum(host["inventories"]["VCPU"]["used"] for host in hosts)


def test_a_create_is_answered_by_a_scheduler_process(
    processes: Processes, service: Service, broker: RabbitBroker, ledger: str, tmp_path: Path
) -> None:
    """The decision exists when the API answers, and all notifications are published."""
    config = settings_file(tmp_path, broker, broker.url, notifications=True)
    api = start_api(processes, service, ledger, config)
    scheduler = processes.start("scheduler", "--ledger", ledger, "--config", config)
    for part in (api, scheduler):
        part.wait_for_log("broker_connected")

    async def told() -> list[dict[str, Any]]:
        connection = await aio_pika.connect(broker.url)
        channel = await connection.channel()
        exchange = await channel.get_exchange(broker.notifications)
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(exchange, "#")
        uuid = await asyncio.to_thread(service.create, "small", "called")
        instance = await asyncio.to_thread(service.get, f"/berth/v1/instances/{uuid}")
        decided = await asyncio.to_thread(
            service.get, f"/berth/v1/decisions/{instance['request_id']}"
        )
        assert decided["verdict"] == "placed"
        await asyncio.to_thread(service.wait_for_status, uuid, "ACTIVE")
        bodies: list[dict[str, Any]] = []
        async with asyncio.timeout(30):
            async for message in queue.iterator(no_ack=True):
                bodies.append(msgspec.json.decode(message.body))
                if bodies[-1]["event_type"] == "instance.create.end":
                    break
        await connection.close()
        return bodies

    bodies = asyncio.run(told())
    events = [body["event_type"] for body in bodies]
    assert [event for event in events if event.startswith("scheduler")] == [
        "scheduler.select_destinations.start",
        "scheduler.select_destinations.end",
    ]
    assert [event for event in events if event.startswith("instance")] == [
        "instance.create.start",
        "instance.create.end",
    ]
    assert bodies[0]["request_id"].startswith("req-")
    for part in (api, scheduler):
        assert part.stop() == 0


def test_an_all_in_one_process_places_for_others(
    processes: Processes, service: Service, broker: RabbitBroker, ledger: str, tmp_path: Path
) -> None:
    """The scheduler in `berth up` answers another API, which has no scheduler of its own."""
    config = settings_file(tmp_path, broker, broker.url)
    settings = ("--ledger", ledger, "--config", config)
    api = start_api(processes, service, ledger, config)
    whole = processes.start("up", "--listen", "127.0.0.1:0", *settings)
    for part in (api, whole):
        part.wait_for_log("broker_connected")
    whole.wait_for_log("listens on")
    uuid = service.create("small", "called")
    instance = service.get(f"/berth/v1/instances/{uuid}")
    decided = service.get(f"/berth/v1/decisions/{instance['request_id']}")
    assert decided["verdict"] == "placed"
    service.wait_for_status(uuid, "ACTIVE")
    for part in (api, whole):
        assert part.stop() == 0


def test_no_order_is_lost_or_duplicated_while_the_broker_comes_and_goes(
    processes: Processes, service: Service, broker: RabbitBroker, ledger: str, tmp_path: Path
) -> None:
    """Each create is accepted once, each server becomes active, and its resources count once."""

    async def main() -> None:
        url = URL(broker.url)
        async with proxying(url.host or "", url.port or 5672) as proxy:
            near = str(url.with_host("127.0.0.1").with_port(proxy.port))
            await asyncio.to_thread(live, settings_file(tmp_path, broker, near), proxy)

    def live(config: str, proxy: Proxy) -> None:
        start_api(processes, service, ledger, config)
        for _ in range(2):
            processes.start("scheduler", "--ledger", ledger, "--config", config)
        stopped = loop.create_future()
        trouble = asyncio.run_coroutine_threadsafe(come_and_go(proxy, stopped), loop)
        with ThreadPoolExecutor(4) as pool:
            keys = [f"key-{number}" for number in range(_SERVERS)]
            uuids = [*pool.map(lambda key: service.create("small", key), keys)]
            again = [*pool.map(lambda key: service.create("small", key), keys[:10])]
        loop.call_soon_threadsafe(stopped.set_result, None)
        trouble.result()
        assert again == uuids[:10]
        servers = [service.wait_for_status(uuid, "ACTIVE", "ERROR") for uuid in uuids]
        assert {server["status"] for server in servers} == {"ACTIVE"}
        assert used_vcpus(service) == _SERVERS
        last = service.create("small", "last")
        service.wait_for_status(last, "ACTIVE")

    async def come_and_go(proxy: Proxy, stopped: asyncio.Future[None]) -> None:
        while not stopped.done():
            await asyncio.wait((stopped,), timeout=0.3)
            proxy.is_closed = not proxy.is_closed
            await proxy.cut()
        proxy.is_closed = False

    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()
