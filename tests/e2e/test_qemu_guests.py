"""Real guests under an agent with the QEMU driver."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.e2e.guest_cloud import STUB, GuestCloud, guest_cloud, require_qemu, wait_until
from tests.iso_reader import files_of

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestCloud]:
    """Yield a cloud with one host, which the tests of this module share."""
    require_qemu()
    with guest_cloud(tmp_path_factory.mktemp("cloud"), {}) as cloud:
        yield cloud


@pytest.fixture
def cloud(running: GuestCloud) -> Iterator[GuestCloud]:
    """Yield the cloud without servers; after the test, audit it and delete all servers."""
    yield running
    running.check_audit()
    running.delete_all()
    running.check_audit()


def test_guests_outlive_their_agent(cloud: GuestCloud) -> None:
    """Guests survive a SIGKILL of their agent; the next agent adopts them and restarts none."""
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


def test_a_guest_has_its_key_on_a_config_drive(cloud: GuestCloud, tmp_path: Path) -> None:
    """The drive has the public key and the user data; a rebuild replaces both."""
    (host,) = cloud.hosts
    path, old = "/v2.1/os-keypairs", {"OpenStack-API-Version": "compute 2.91"}
    keys = {
        name: cloud.service.post(path, {"keypair": {"name": name}}, **old)["keypair"]["public_key"]
        for name in ("one", "two")
    }
    uuid = cloud.create("with-key", key_name="one", user_data="aGVsbG8=")
    rebuild = {"imageRef": STUB, "key_name": "two", "user_data": None}
    for name, user_data in (("one", b"hello"), ("two", None)):
        raw = tmp_path / name
        drive = host.folder / "guests" / uuid / "config.qcow2"
        words = ("qemu-img", "convert", "-U", "-O", "raw", str(drive), str(raw))
        subprocess.run(words, check=True)
        files = files_of(raw.read_bytes())
        metadata = json.loads(files["openstack/latest/meta_data.json"])
        assert (metadata["uuid"], metadata["public_keys"]) == (uuid, {name: keys[name]})
        assert files.get("openstack/latest/user_data") == user_data
        if name == "one":
            cloud.service.post(f"/v2.1/servers/{uuid}/action", {"rebuild": rebuild})
            cloud.settled(uuid)
    for name in keys:
        url = f"{cloud.service.url}{path}/{name}"
        httpx.delete(url, trust_env=False).raise_for_status()


def test_a_guest_that_died_while_nobody_looked_is_started_again(cloud: GuestCloud) -> None:
    """The next agent starts a guest that the ledger calls active and that died without an agent."""
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
