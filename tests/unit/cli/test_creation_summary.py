"""The summary of creating many servers."""

import json

import pytest

from tests.unit.cli.cloud import Cloud
from tests.unit.cli.conftest import Run

CREATE = ("server", "create", "web", "--flavor", "small", "--wait")
REASON = "No valid host was found for 30 instances. Only 20 found room."


@pytest.fixture
def stocked(cloud: Cloud) -> Cloud:
    """Return a cloud with a flavor, whose servers are built when they are listed."""
    cloud.add_flavor("small")
    return cloud


def test_placed_servers_are_counted_by_host(run: Run, stocked: Cloud) -> None:
    """The host with the most servers comes first, then numbers in names by value."""
    hosts = ["rack10", "rack2", "rack2", *(f"rack{number}" for number in range(11, 38))]
    builds = iter([{"status": "ACTIVE", "OS-EXT-SRV-ATTR:host": host} for host in hosts])
    stocked.next_build = lambda: next(builds)
    ended = run(*CREATE, "--count", len(hosts))
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert lines[0] == "30 servers: 30 ACTIVE"
    assert lines[2:6] == [
        "Placed on 29 hosts",
        "Host    Zone  Servers",
        "rack2   -           2",
        "rack10  -           1",
    ]
    assert "and 9 servers on 9 more hosts" in lines
    assert len(lines) < 30


def test_a_refusal_is_told_once_with_the_nearest_change(run: Run, stocked: Cloud) -> None:
    """A thousand servers of one request are refused for one reason."""
    stocked.builds = {"status": "ERROR", "fault": {"message": REASON}}
    uuid = "00000000-0000-4000-8000-000000000001"
    change = "10 fewer instances: 20 of 30 fit"
    refused = {"refusal": {"relaxations": [{"text": change}]}}
    stocked.fixed[("GET", f"/berth/v1/decisions/{uuid}")] = (200, refused)
    ended = run(*CREATE, "--count", 30)
    assert ended.code == 3
    assert ended.out.count(REASON) == 1
    assert f"30 servers not created: {REASON}\n  would fit: {change}" in ended.out
    assert f"30 servers in ERROR; see `berth explain {uuid}`" in ended.err
    assert REASON not in ended.err.splitlines()[-1]


def test_a_fault_that_the_list_lacks_is_fetched_once(run: Run, stocked: Cloud) -> None:
    """The summary costs a request for each reason, not for each server."""
    stocked.builds = {"status": "ERROR"}
    ended = run(*CREATE, "--count", 25)
    assert ended.code == 1
    assert "25 servers not created: no reason is known" in ended.out
    shown = [one for one in stocked.asked if one.url.path.startswith("/v2.1/servers/0000")]
    assert len(shown) <= 2


def test_json_has_every_server(run: Run, stocked: Cloud) -> None:
    """Programs get the same document for any number of servers."""
    ended = run(*CREATE, "--count", 30, "--json")
    found = json.loads(ended.out)["servers"]
    assert [one["status"] for one in found] == ["ACTIVE"] * 30


def test_a_few_servers_are_listed(run: Run, stocked: Cloud) -> None:
    """Up to 20 servers have a row each."""
    lines = run(*CREATE, "--count", 20).out.splitlines()
    assert len(lines) == 21
