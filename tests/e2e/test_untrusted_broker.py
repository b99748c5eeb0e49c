"""What anyone who can publish on the broker can do to a cloud; SECURITY.md has the table."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import aio_pika
import httpx
import pytest

from berth.adapters.bus.rabbitmq import RabbitBroker, RabbitBus
from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.instance import Instance
from berth.domain.compute.request import Request, instance_uuid_of, reservation_id_of
from berth.domain.errors import UnavailableError
from berth.domain.zones.zone_orders import ReleaseOrder, Withdrawal
from berth.lab.loopback import free_port
from berth.services.requests.orders import PLACE, PlaceOrder
from berth.services.servers.consoles import CONSOLE, ConsoleAsked
from berth.services.zoning.messages.zone_commands import RELEASE
from tests.e2e.conftest import Part, Processes, Service
from tests.rabbit import bus_signer, riding
from tests.unit.services.wiring import Told

pytestmark = pytest.mark.rabbitmq

_FOREIGN: Final = os.urandom(32)
_ANSWER_S: Final = 20.0


class Cloud:
    """An API, a scheduler and an agent with access to the ledger, all on one broker."""

    def __init__(
        self, processes: Processes, service: Service, broker: RabbitBroker, folder: Path
    ) -> None:
        self.service, self.broker = service, broker
        config = folder / "berth.toml"
        config.write_text(
            f'[bus]\nurl = "{broker.url}"\nprefix = "{broker.prefix}"\n[zones]\nname = "here"\n'
        )
        self.words = ("--ledger", f"sqlite:///{folder / 'berth.sqlite'}", "--config", str(config))
        address = service.url.removeprefix("http://")
        self.api = processes.start("api", "--listen", address, *self.words)
        service.wait_until(lambda status: True, self.api)
        self.metrics_url = f"http://127.0.0.1:{free_port()}"
        watched = folder / "scheduler.toml"
        listen = self.metrics_url.removeprefix("http://")
        watched.write_text(f'{config.read_text()}[metrics]\nlisten = "{listen}"\n')
        self.scheduler = processes.start("scheduler", *self.words[:-1], str(watched))
        self.agent = processes.start("agent", "--fake-hosts", "1", *self.words)
        service.wait_until(lambda status: status["hosts"]["total"] == 1, self.api)
        for part in (self.api, self.scheduler, self.agent):
            part.wait_for_log("broker_connected")
        service.flavor("small", vcpus=1, ram=512)

    @property
    def parts(self) -> tuple[Part, Part, Part]:
        """All processes."""
        return self.api, self.scheduler, self.agent

    def console_of(self, uuid: str) -> str:
        """Return what the console of a server shows through the API."""
        body: dict[str, object] = {"os-getConsoleOutput": {}}
        url = f"{self.service.url}/v2.1/servers/{uuid}/action"
        answer = httpx.post(url, json=body, trust_env=False).raise_for_status()
        return str(answer.json()["output"])


def place_order(uuid: str, request_id: str) -> PlaceOrder:
    """Return an order past all quotas, with a made-up flavor, for another project."""
    flavor = Flavor("made-up", "made-up", vcpus=0, memory_mb=0)
    image = Image("img")
    reservation = reservation_id_of(request_id)
    instance = Instance(uuid, "x", "victim", "u", request_id, reservation, flavor, image=image)
    request = Request(request_id, (uuid,), flavor, project_id="victim", user_id="u", image=image)
    return PlaceOrder(request, (instance,))


def test_forged_messages_do_nothing(
    processes: Processes, service: Service, broker: RabbitBroker, tmp_path: Path
) -> None:
    """A stranger neither places, deletes, reads consoles nor deletes folders; work goes on."""
    cloud = Cloud(processes, service, broker, tmp_path)
    uuid = service.create("small", "victim")
    service.wait_for_status(uuid, "ACTIVE")
    host = str(service.get(f"/v2.1/servers/{uuid}")["server"]["OS-EXT-SRV-ATTR:host"])
    before = service.get("/v2.1/servers/detail?all_tenants=1")["servers"]

    async def attack(stranger: RabbitBus) -> None:
        for number, evil in enumerate((instance_uuid_of("req-evil", 0), "..", str(tmp_path))):
            order = place_order(evil, f"req-evil-{number}")
            with refused():
                await stranger.call(PLACE, order, timeout_s=_ANSWER_S)
        release = ReleaseOrder("parent", (), (Withdrawal(uuid, 2**40),), "")
        with refused():
            await stranger.call(RELEASE, release, timeout_s=_ANSWER_S)
        asked = ConsoleAsked(uuid, 2_000)
        with refused():
            await stranger.call(CONSOLE, asked, timeout_s=_ANSWER_S, server=host)

    asyncio.run(as_stranger(broker, attack))
    asyncio.run(publish_garbage(broker))
    assert service.get("/v2.1/servers/detail?all_tenants=1")["servers"] == before
    assert (tmp_path / "berth.toml").is_file()
    metrics = httpx.get(f"{cloud.metrics_url}/metrics", trust_env=False).text
    assert 'berth_bus_refusals_total{reason="forged"}' in metrics
    assert 'berth_bus_refusals_total{reason="unsigned"}' in metrics
    another = service.create("small", "after")
    service.wait_for_status(another, "ACTIVE")
    assert f"uuid={another}" in cloud.console_of(another)
    assert service.get("/berth/v1/audit?grace=0&task_age=0&request_age=0")["discrepancies"] == []
    for part in (cloud.scheduler, cloud.agent):
        assert "bus_message_refused" in part.log.read_text()
    for part in cloud.parts:
        assert part.stop() == 0


async def as_stranger(broker: RabbitBroker, attack: Callable[[RabbitBus], Awaitable[None]]) -> None:
    """Run an attack on a connection to the broker, without the control plane's key."""
    async with riding(broker, Told(), bus_signer(_FOREIGN)) as bus:
        await attack(bus)


def refused() -> AbstractContextManager[object]:
    """Return the context in which a call is refused for its signature."""
    return pytest.raises(UnavailableError, match="refused")


async def publish_garbage(broker: RabbitBroker) -> None:
    """Publish random messages to every exchange and routing key that Berth uses."""
    connection = await aio_pika.connect(broker.url)
    async with connection:
        channel = await connection.channel()
        keys = [f"{one.topic}.{one.name}" for one in (PLACE, RELEASE)]
        for name in (broker.commands, broker.fanout):
            exchange = await channel.get_exchange(name)
            for size in range(300):
                message = aio_pika.Message(os.urandom(size), reply_to="nobody")
                await exchange.publish(message, keys[size % 2], mandatory=False)
