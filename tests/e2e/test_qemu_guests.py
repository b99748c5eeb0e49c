"""Real guests under an agent with the QEMU driver."""

from collections.abc import Iterator

import httpx
import pytest

from tests.e2e.guest_cloud import GuestCloud, guest_cloud, require_qemu, wait_until

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestCloud]:
    """A service with one host, for all tests here."""
    require_qemu()
    with guest_cloud(tmp_path_factory.mktemp("cloud"), {}) as cloud:
        yield cloud


@pytest.fixture
def cloud(running: GuestCloud) -> Iterator[GuestCloud]:
    """The same, without servers; what a test leaves there is no fault."""
    yield running
    running.check_audit()
    running.delete_all()
    running.check_audit()


def test_guests_outlive_their_agent(cloud: GuestCloud) -> None:
    """A SIGKILL of the agent ends none; the next one goes on with them and starts none twice."""
    (host,) = cloud.hosts
    first, second = cloud.create("first"), cloud.create("second")
    before = host.running()
    assert before.keys() == {first, second}
    host.kill_agent()
    url = f"{cloud.service.url}/v2.1/servers/{first}"
    httpx.delete(url, trust_env=False).raise_for_status()
    assert host.running() == before
    cloud.start_agent(host)
    wait_until(lambda: first not in host.running())
    assert host.running() == {second: before[second]}
    assert host.starts(second) == 1
    wait_until(lambda: host.remains() == [second])


def test_a_guest_that_died_while_nobody_looked_is_started_again(cloud: GuestCloud) -> None:
    """The ledger says that it is active."""
    (host,) = cloud.hosts
    uuid = cloud.create("unlucky")
    host.kill_agent()
    died = host.running()[uuid]
    died.kill()
    wait_until(lambda: uuid not in host.running())
    cloud.start_agent(host)
    wait_until(lambda: uuid in host.running())
    assert host.running()[uuid] != died
    wait_until(lambda: host.starts(uuid) == 2)
