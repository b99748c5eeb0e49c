"""Notifications on RabbitMQ, read as other services would, and TLS to the broker."""

import asyncio
import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from random import Random

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from yarl import URL

from berth.adapters.bus.rabbitmq import BrokerConnection, RabbitBroker, RabbitNotifier
from berth.ports.bus import CONTEXT, Context, Priority
from berth.testing.bus_conformance.letters import ASK, Letter, Reply, answering
from tests.integration.rabbitmq_reading import behind, reading, take
from tests.proxy import proxying
from tests.rabbit import riding, running, until
from tests.unit.services.wiring import Told

pytestmark = pytest.mark.rabbitmq

_PATIENCE_S = 20.0


async def test_a_notification_tells_what_happened(broker: RabbitBroker) -> None:
    """A notification has its topic, priority and request id; a repeated one has the same id."""
    line = BrokerConnection(broker, Told(), Random())
    notifier = RabbitNotifier(line, "scheduler.rack1", now_s=lambda: 1_700_000_000.5)
    CONTEXT.set(Context("req-1"))
    async with running(line), reading(broker, "instance.#") as queue:
        notifier.notify("host.create", {"no": "reader"}, key="h")
        notifier.notify("instance.create.end", {"uuid": "u"}, key="u:1")
        notifier.notify("instance.create.error", {"uuid": "u"}, key="u:1", priority=Priority.ERROR)
        notifier.notify("instance.create.end", {"uuid": "u"}, key="u:1")
        first, second, third = await take(queue, 3)
    assert first == {
        "message_id": third["message_id"],
        "event_type": "instance.create.end",
        "priority": "INFO",
        "publisher_id": "scheduler.rack1",
        "timestamp": "2023-11-14T22:13:20.500000+00:00",
        "request_id": "req-1",
        "traceparent": None,
        "payload": {"uuid": "u"},
    }
    assert second["priority"] == "ERROR"
    assert second["message_id"] != first["message_id"]


async def test_what_happens_while_the_broker_is_away_is_told_later(broker: RabbitBroker) -> None:
    """Notifications of an outage are sent in order once the broker is back."""
    url = URL(broker.url)
    async with proxying(url.host or "", url.port or 5672) as proxy:
        line = BrokerConnection(behind(proxy, broker), Told(), Random())
        notifier = RabbitNotifier(line, "scheduler.rack1")
        async with running(line), reading(broker, "#") as queue:
            proxy.is_closed = True
            await proxy.cut()
            for number in range(200):
                notifier.notify("host.update", {"number": number}, key=f"{number}")
            await asyncio.sleep(0.2)
            proxy.is_closed = False
            told = await take(queue, 200)
    assert [one["payload"]["number"] for one in told] == [*range(200)]


async def test_notifications_never_fill_the_memory(broker: RabbitBroker) -> None:
    """The oldest notifications beyond the limit are dropped and logged, unreadable ones too."""
    told = Told()
    notifier = RabbitNotifier(BrokerConnection(broker, told, Random()), "x")
    for number in range(10_005):
        notifier.notify("host.update", {}, key=f"{number}")
    assert told.events == ["notification_dropped"] * 5
    notifier.notify("host.update", object(), key="odd")
    assert told.failed == ["notification_unreadable"]


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Write a certificate for the loopback address, with its key, to a file; return its path."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "broker.pem"
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    path.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain) + made.public_bytes(pem)
    )
    return path


async def test_a_broker_behind_tls_is_checked(broker: RabbitBroker, certificate: Path) -> None:
    """With its certificate the bus works; without it there is no connection at all."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    url = URL(broker.url)
    async with proxying(url.host or "", url.port or 5672, tls) as proxy:
        secure = replace(behind(proxy, broker, "amqps"), ca_file=certificate)
        async with riding(secure, Told()) as bus:
            bus.serve(ASK, answering("safe "))
            assert await bus.call(ASK, Letter("x"), timeout_s=5) == Reply("safe x")
        told = Told()
        line = BrokerConnection(replace(secure, ca_file=None), told, Random())
        task = asyncio.create_task(line.run())
        await until(lambda: bool(told.failures))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert "certificate" in str(told.failures[0][1]).lower()
        assert not line.up.is_set()
