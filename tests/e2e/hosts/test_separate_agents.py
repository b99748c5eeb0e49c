"""A cloud whose agents have no access to the ledger, in the processes that the guide documents."""

import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.e2e.hosts.separate_cloud import HOSTS, SeparateCloud, separate_cloud

pytestmark = pytest.mark.timeout(600)


on_each_ledger = pytest.mark.parametrize(
    "cloud", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)], indirect=True
)


@pytest.fixture
def cloud(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[SeparateCloud]:
    """Yield a cloud, on SQLite unless the test asks for another; at the end an audit is clean."""
    ledger = f"sqlite:///{tmp_path / 'berth.sqlite'}"
    if getattr(request, "param", "sqlite") == "postgresql":
        ledger = request.getfixturevalue("fresh_postgres_url")
    with separate_cloud(tmp_path, ledger) as cloud:
        yield cloud
        cloud.wait_until(lambda: not cloud.audit(), "the audit finds nothing")
        cloud.operate("audit")
        # An agent that had opened a ledger would have created its folder.
        for host in HOSTS:
            assert [path.name for path in (tmp_path / host).iterdir()] == ["agent.key"]


@on_each_ledger
def test_servers_live_and_move(cloud: SeparateCloud) -> None:
    """Every operation on a server works between agents that reach only the API."""
    first = cloud.create("web")
    cloud.wait_until(lambda: cloud.has_console("web"), "the console is shown")

    cloud.operate("server", "resize", "web", "--flavor", "large", "--wait")
    cloud.operate("server", "confirm", "web", "--wait")
    second = cloud.host_of("web")
    assert second != first
    assert cloud.server("web")["flavor"]["original_name"] == "large"

    cloud.operate("server", "resize", "web", "--flavor", "small", "--wait")
    cloud.operate("server", "revert", "web", "--wait")
    assert cloud.host_of("web") == second
    assert cloud.server("web")["flavor"]["original_name"] == "large"

    cloud.operate("server", "live-migrate", "web", "--host", first, "--wait")
    assert (cloud.host_of("web"), cloud.server("web")["status"]) == (first, "ACTIVE")
    cloud.wait_until(lambda: cloud.has_console("web"), "the console is shown")

    cloud.operate("server", "migrate", "web", "--host", second, "--wait")
    cloud.operate("server", "confirm", "web", "--wait")
    assert (cloud.host_of("web"), cloud.server("web")["status"]) == (second, "ACTIVE")

    cloud.operate("server", "shelve", "web", "--wait")
    assert cloud.server("web")["status"] == "SHELVED_OFFLOADED"
    cloud.operate("server", "unshelve", "web", "--wait")
    assert cloud.server("web")["status"] == "ACTIVE"

    cloud.operate("server", "delete", "web", "--wait")
    cloud.wait_until(lambda: not cloud.network_files(), "all offers and disks are gone")


def test_servers_of_a_dead_host_are_rebuilt(cloud: SeparateCloud) -> None:
    """`evacuate` rebuilds them, and the agent of the host cleans up when it is back."""
    dead = cloud.create("vm")
    cloud.kill(dead)
    cloud.wait_until(lambda: dead not in cloud.hosts_up(), "the host is down")
    cloud.operate("host", "evacuate", dead, "--wait")
    assert (cloud.host_of("vm") == dead, cloud.server("vm")["status"]) == (False, "ACTIVE")
    cloud.start_agent(dead)
    cloud.wait_until(lambda: cloud.hosts_up() == list(HOSTS), "the host is back")


def test_a_host_that_was_given_up_is_fenced(cloud: SeparateCloud) -> None:
    """A stopped agent whose server was evacuated destroys its guest when it continues."""
    given_up = cloud.create("vm")
    agent = cloud.running[given_up].process
    agent.send_signal(signal.SIGSTOP)
    cloud.wait_until(lambda: given_up not in cloud.hosts_up(), "the host is down")
    cloud.operate("host", "evacuate", given_up, "--wait")
    assert (cloud.host_of("vm") == given_up, cloud.server("vm")["status"]) == (False, "ACTIVE")
    assert not cloud.is_empty(given_up)
    agent.send_signal(signal.SIGCONT)
    cloud.wait_until(lambda: cloud.hosts_up() == list(HOSTS), "the host is back")
    cloud.wait_until(lambda: cloud.is_empty(given_up), "the old guest is destroyed")
    cloud.wait_until(lambda: cloud.has_console("vm"), "the new guest runs")


def test_agents_find_the_api_again(cloud: SeparateCloud) -> None:
    """After a restart of the API the agents reconnect, and commands and consoles work."""
    host = cloud.create("before")
    counts = {host: cloud.sessions_of(host) for host in HOSTS}
    assert cloud.stop("api") == 0
    cloud.start_api()
    cloud.wait_until(
        lambda: all(cloud.sessions_of(host) > count for host, count in counts.items()),
        "all agents have reconnected",
    )
    cloud.create("after")
    cloud.wait_until(lambda: cloud.has_console("before"), "the console is shown")
    cloud.operate("server", "live-migrate", "before", "--wait")
    assert cloud.host_of("before") != host


def test_keys_are_replaced_and_revoked(cloud: SeparateCloud) -> None:
    """A rotation keeps the host up; a revocation cuts it off until it is enrolled again."""
    host = cloud.create("vm")
    before = cloud.keys_of(host)
    cloud.operate("host", "rotate-key", host)
    cloud.wait_until(
        lambda: len(cloud.keys_of(host)) == 1 and cloud.keys_of(host) != before,
        "the key is replaced",
    )
    cloud.wait_until(lambda: cloud.has_console("vm"), "the console is shown")

    rotated = cloud.keys_of(host)
    cloud.operate("host", "revoke-key", host)
    cloud.wait_until(
        lambda: "the key of the host was revoked" in cloud.running[host].text(),
        "the agent is cut off",
    )
    cloud.wait_until(lambda: host not in cloud.hosts_up(), "the host is down")
    assert cloud.stop(host) == 0
    cloud.enroll(host)
    assert cloud.keys_of(host) not in (before, rotated)
    cloud.start_agent(host)
    cloud.wait_until(lambda: cloud.hosts_up() == list(HOSTS), "the host is back")
    cloud.operate("server", "delete", "vm", "--wait")
