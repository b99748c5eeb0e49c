"""A cloud whose agents reach the control plane over RabbitMQ, in processes of their own."""

import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from berth.adapters.bus.rabbitmq import RabbitBroker
from tests.e2e.hosts.separate_cloud import HOSTS, SeparateCloud, separate_cloud
from tests.relay import Relay, relaying

pytestmark = [pytest.mark.timeout(600), pytest.mark.rabbitmq, pytest.mark.postgres]


@pytest.fixture
def relay(broker: RabbitBroker) -> Generator[Relay]:
    """Yield a relay between the hosts and the broker."""
    with relaying(broker.url, 5672) as relay:
        yield relay


@pytest.fixture
def cloud(
    broker: RabbitBroker, relay: Relay, fresh_postgres_url: str, tmp_path: Path
) -> Generator[SeparateCloud]:
    """Yield a cloud on PostgreSQL; at the end an audit finds nothing in it."""
    relays = dict.fromkeys(HOSTS, relay.url(broker.url))
    with separate_cloud(tmp_path, fresh_postgres_url, broker, relays) as cloud:
        yield cloud
        cloud.wait_until(lambda: not cloud.audit(), "the audit finds nothing")
        for host in HOSTS:
            files = sorted(path.name for path in (tmp_path / host).iterdir())
            assert files == ["agent.key", "agent.key.control"], "no ledger was opened"
            assert "guest:guest" not in cloud.running[host].text(), "no log has a password"


def test_servers_live_and_move(cloud: SeparateCloud) -> None:
    """Servers are created, resized, live-migrated and deleted; consoles are shown."""
    first = cloud.create("web")
    cloud.wait_until(lambda: cloud.has_console("web"), "the console is shown")
    cloud.operate("server", "resize", "web", "--flavor", "large", "--wait")
    cloud.operate("server", "confirm", "web", "--wait")
    assert cloud.host_of("web") != first
    cloud.operate("server", "live-migrate", "web", "--host", first, "--wait")
    assert (cloud.host_of("web"), cloud.server("web")["status"]) == (first, "ACTIVE")
    cloud.operate("server", "delete", "web", "--wait")
    cloud.wait_until(lambda: not cloud.network_files(), "all offers and disks are gone")


def test_a_frozen_agent_and_a_broken_connection(cloud: SeparateCloud, relay: Relay) -> None:
    """What was ordered meanwhile is done when the agent runs, and is connected, again."""
    host = cloud.create("vm")
    frozen = cloud.running[host].process.pid
    os.kill(frozen, signal.SIGSTOP)
    cloud.operate("server", "stop", "vm")
    cloud.wait_until(lambda: host not in cloud.hosts_up(), "the host is down")
    assert cloud.server("vm")["status"] == "ACTIVE"
    os.kill(frozen, signal.SIGCONT)
    cloud.wait_until(lambda: cloud.server("vm")["status"] == "SHUTOFF", "the server is stopped")

    sessions = cloud.sessions_of(host)
    relay.close()
    cloud.operate("server", "start", "vm")
    cloud.wait_until(lambda: "gateway_lost" in cloud.running[host].text(), "it is cut off")
    assert cloud.server("vm")["status"] == "SHUTOFF"
    relay.open()
    cloud.wait_until(lambda: cloud.server("vm")["status"] == "ACTIVE", "the server is started")
    assert cloud.sessions_of(host) > sessions
    cloud.operate("server", "delete", "vm", "--wait")


def test_agents_find_the_next_api(cloud: SeparateCloud) -> None:
    """After an API was killed the agents open sessions with the next one, with the same keys."""
    counts = {host: cloud.sessions_of(host) for host in HOSTS}
    cloud.kill("api")
    cloud.start_api()
    cloud.wait_until(
        lambda: all(cloud.sessions_of(host) > count for host, count in counts.items()),
        "all agents have reconnected",
    )
    cloud.create("after")
    cloud.wait_until(lambda: cloud.has_console("after"), "the console is shown")
    cloud.operate("server", "delete", "after", "--wait")


def test_keys_are_replaced_and_revoked(cloud: SeparateCloud) -> None:
    """A rotation keeps the host up; a revocation cuts it off, and its log says why."""
    host = HOSTS[1]
    before = cloud.keys_of(host)
    cloud.operate("host", "rotate-key", host)
    cloud.wait_until(
        lambda: len(cloud.keys_of(host)) == 1 and cloud.keys_of(host) != before,
        "the key is replaced",
    )
    control = cloud.certificate.with_name("control-keys")
    cloud.operate("control-keys", "rotate", "--file", str(control))
    assert cloud.stop("api") == 0
    counts = {host: cloud.sessions_of(host) for host in HOSTS}
    cloud.start_api()
    cloud.wait_until(
        lambda: all(cloud.sessions_of(host) > count for host, count in counts.items()),
        "all agents accept the next key of the control plane",
    )
    cloud.wait_until(
        lambda: cloud.running[host].text().count("control_keys_saved") == 1,
        "the agent knows the key after that",
    )
    cloud.operate("host", "revoke-key", host)
    cloud.wait_until(
        lambda: "not made with a valid key" in cloud.running[host].text(), "it is refused"
    )
    cloud.wait_until(lambda: host not in cloud.hosts_up(), "the host is down")
