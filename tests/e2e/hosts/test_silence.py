"""Silence of living hosts: the control plane could not hear them, so none of them is down."""

import signal
import time
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest

from tests.e2e.hosts.separate_cloud import HOSTS, SeparateCloud, separate_cloud
from tests.relay import Relay, relaying

pytestmark = [pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(600)]

DOWN_TIME_S = 6.0
_AWAY_S = 9.0
_OUTAGES = 3
_PORT_OF_POSTGRES = 5432


@pytest.fixture
def ledger(fresh_postgres_url: str) -> Generator[Relay]:
    """Yield a proxy to the ledger."""
    with relaying(fresh_postgres_url, _PORT_OF_POSTGRES) as relay:
        yield relay


@pytest.fixture
def cloud(fresh_postgres_url: str, ledger: Relay, tmp_path: Path) -> Generator[SeparateCloud]:
    """Yield a cloud whose processes reach the ledger through the proxy."""
    url = ledger.url(f"{fresh_postgres_url}?sslmode=disable")
    with separate_cloud(tmp_path, url, down_time_s=DOWN_TIME_S) as cloud:
        yield cloud


def check_first_answer(cloud: SeparateCloud, host: str, name: str) -> None:
    """Check that all hosts are up in the first answer, and what an owner and an operator get.

    The create must succeed, and the evacuation of a living host must be refused.
    """
    with cloud.client() as http:
        while (answer := http.get("/v2.1/os-services")).status_code != httpx.codes.OK:
            time.sleep(0.02)
        states = {one["host"]: one["state"] for one in answer.json()["services"]}
        assert states == dict.fromkeys(HOSTS, "up"), cloud.logs()
        create = {"name": name, "flavorRef": cloud.flavor("small"), "networks": "none"}
        http.headers["OpenStack-API-Version"] = "compute 2.95"
        accepted = http.post("/v2.1/servers", json={"server": create})
        assert accepted.status_code == httpx.codes.ACCEPTED, accepted.text
        path = f"/v2.1/servers/{cloud.server('vm')['id']}/action"
        body: dict[str, object] = {"evacuate": {}}
        evacuation = http.post(path, json=body)
        assert evacuation.status_code == httpx.codes.BAD_REQUEST, evacuation.text
    cloud.wait_until(lambda: cloud.server(name)["status"] != "BUILD", "the server is decided")
    assert cloud.server(name)["status"] == "ACTIVE"
    assert (cloud.host_of("vm"), cloud.server("vm")["status"]) == (host, "ACTIVE")


def test_no_host_is_down_after_outages_of_the_ledger(cloud: SeparateCloud, ledger: Relay) -> None:
    """Outages longer than the time after which a host is down leave every host up."""
    host = cloud.create("vm")
    for number in range(_OUTAGES):
        ledger.close()
        time.sleep(_AWAY_S)
        ledger.open()
        check_first_answer(cloud, host, f"new-{number}")


def test_no_host_is_down_after_the_control_plane_was_away(cloud: SeparateCloud) -> None:
    """Processes that stood still or were restarted give each host time to report."""
    host = cloud.create("vm")
    parts = ("api", "scheduler")
    for sent in (signal.SIGSTOP, signal.SIGCONT):
        for part in parts:
            cloud.running[part].process.send_signal(sent)
        if sent is signal.SIGSTOP:
            time.sleep(_AWAY_S)
    check_first_answer(cloud, host, "after a pause")

    for part in parts:
        cloud.kill(part)
    time.sleep(_AWAY_S)
    cloud.start_api()
    cloud.start_scheduler()
    cloud.wait_until(cloud.answers, "the API answers")
    check_first_answer(cloud, host, "after a restart")
