"""Ordinary clients and real guests, on PostgreSQL and RabbitMQ, each part in its own process."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from berth.adapters.bus.rabbitmq import RabbitBroker
from berth.testing.private_libvirt import lacking
from tests.e2e.clients.clouds import PYTHON, ROOT, client_environment
from tests.e2e.clients.expecting import (
    Command,
    lists,
    lists_row,
    says,
    settling,
    shows,
    shows_fields,
)
from tests.e2e.clients.guest_fleet import GuestFleet, guest_fleet
from tests.e2e.clients.programs import Done, Programs
from tests.e2e.guest_cloud import require_qemu, wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.postgres,
    pytest.mark.rabbitmq,
    pytest.mark.timeout(600),
]

HOST = "OS-EXT-SRV-ATTR:host"
BOOT = "server create --flavor m1.small --image cirros"
_NAMES = ("web-1", "web-2", "web-3")


class Day:
    """The actions and checks of one user."""

    def __init__(self, fleet: GuestFleet, programs: Programs) -> None:
        self.fleet = fleet
        self._programs = programs
        self._cloud = fleet.cloud

    def call(self, line: str) -> Done:
        """Run a command line with the openrc variables of the guide."""
        return self._programs.call(line, self._cloud.environment(line.partition(" ")[0]))

    def judge(self, *commands: Command) -> None:
        """Run commands and check their output."""
        for command in commands:
            command.judge(self.call)

    def has(self, name: str, status: str, **fields: object) -> dict[str, Any]:
        """Wait until a server has a status, these fields and no task, and return it."""
        wanted = {"status": status, "OS-EXT-STS:task_state": None, **fields}
        self.judge(settling(shows_fields(f"server show {name}", wanted)))
        shown: dict[str, Any] = self.call(f"openstack server show {name} -f json").json
        return shown

    def is_where_it_says(self, server: dict[str, Any]) -> None:
        """Wait until the guest runs on the host that the client was shown."""
        uuid, host = server["id"], server[HOST]
        wait_until(lambda: self.fleet.running().get(uuid) == host)

    def waits_for(self, uuid: str, *, runs: bool) -> None:
        """Wait until a guest has a process, or has none if `runs` is False."""
        wait_until(lambda: (uuid in self.fleet.running()) is runs)

    def holds(self, server: dict[str, Any], vcpus: int) -> None:
        """Check with the Placement client that the server has an allocation on its host only."""
        allocations = self.call(
            f"openstack resource provider allocation show {server['id']} -f json"
        ).json
        providers = self.call("openstack resource provider list -f json").json
        uuids = {one["name"]: one["uuid"] for one in providers}
        assert [one["resource_provider"] for one in allocations] == [uuids[server[HOST]]]
        assert json.loads(json.dumps(allocations[0]["resources"]))["VCPU"] == vcpus


# The suite of the drivers compares them; one story shows that the whole works with the clients.
_DRIVERS = ["libvirt", "qemu"]
_TOLD = _DRIVERS if "BERTH_CLIENTS_ALL" in os.environ else ["qemu" if lacking() else "libvirt"]


@pytest.fixture(params=_TOLD)
def day(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    fresh_postgres_url: str,
    broker: RabbitBroker,
    programs: Programs,
) -> Iterator[Day]:
    """Yield a user of a fleet with one of the drivers; the flavors exist."""
    require_qemu()
    if request.param == "libvirt" and (reason := lacking()):
        pytest.skip(reason)
    with guest_fleet(tmp_path, fresh_postgres_url, broker, request.param) as fleet:
        day = Day(fleet, programs)
        day.judge(
            shows("flavor create --vcpus 1 --ram 4 --disk 0 m1.small", vcpus=1),
            shows("flavor create --vcpus 2 --ram 8 --disk 0 m1.medium", vcpus=2),
        )
        yield day


def test_three_servers_and_their_lives(day: Day) -> None:
    """Three servers go through all actions, from `server create --wait` to the last delete."""
    day.judge(shows(f"{BOOT} --min 3 --max 3 --wait web", name="web-1"))
    day.judge(
        lists("server list", "Name", *_NAMES), lists("server list", "Status", *["ACTIVE"] * 3)
    )
    servers = [day.has(name, "ACTIVE") for name in _NAMES]
    assert {one["id"] for one in servers} == day.fleet.running().keys()
    for one in servers:
        day.is_where_it_says(one)
    day.holds(servers[0], vcpus=1)
    _power(day)
    _sizes_and_hosts(day)
    _shelf(day)
    _evacuation(day)
    day.judge(shows("server rebuild web-1", name="web-1"))
    day.has("web-1", "ACTIVE")
    _reservation(day)
    day.judge(says("server delete --wait web-1 web-2 web-3"), lists("server list", "Name"))
    _library(day)
    day.fleet.wait_until_empty()
    usages = [
        row["usage"]
        for one in day.call("openstack resource provider list -f json").json
        for row in day.call(f"openstack resource provider usage show {one['uuid']} -f json").json
    ]
    assert set(usages) == {0}
    day.fleet.check_audit()


def _power(day: Day) -> None:
    """Apply the actions that leave a server on its host."""
    day.judge(settling(says("console log show web-1", "BERTH|ready|READY")))
    day.judge(says("server show --diagnostics web-1", "cpu0_time|cpu_details"))
    for step, status in (
        ("stop", "SHUTOFF"),
        ("start", "ACTIVE"),
        ("reboot", "ACTIVE"),
        ("reboot --hard", "ACTIVE"),
        ("pause", "PAUSED"),
        ("unpause", "ACTIVE"),
        ("suspend", "SUSPENDED"),
        ("resume", "ACTIVE"),
    ):
        day.judge(says(f"server {step} web-1"))
        server = day.has("web-1", status)
        day.waits_for(server["id"], runs=status in {"ACTIVE", "PAUSED"})


def _sizes_and_hosts(day: Day) -> None:
    """Resize and migrate servers, with confirm and revert."""
    before = day.has("web-1", "ACTIVE")
    day.judge(says("server resize --flavor m1.medium web-1"))
    day.has("web-1", "VERIFY_RESIZE")
    day.judge(says("server resize confirm web-1"))
    resized = day.has("web-1", "ACTIVE", flavor="~m1.medium")
    day.is_where_it_says(resized)
    day.holds(resized, vcpus=2)
    day.judge(says("server resize --flavor m1.medium web-2"))
    day.has("web-2", "VERIFY_RESIZE")
    day.judge(says("server resize revert web-2"))
    day.holds(day.has("web-2", "ACTIVE", flavor="~m1.small"), vcpus=1)
    day.judge(says("server migrate web-2"))
    day.has("web-2", "VERIFY_RESIZE")
    day.judge(says("server migration confirm web-2"))
    day.is_where_it_says(day.has("web-2", "ACTIVE"))
    here = resized[HOST]
    there = next(host.name for host in day.fleet.hosts if host.name != here)
    day.judge(says(f"server migrate --live-migration --host {there} web-1"))
    moved = day.has("web-1", "ACTIVE", **{HOST: there})
    day.is_where_it_says(moved)
    day.holds(moved, vcpus=2)
    assert moved["id"] == before["id"]
    day.judge(lists_row("server migration list", {"Type": "live-migration", "Status": "completed"}))


def _shelf(day: Day) -> None:
    """Shelve a server, which then runs nowhere, and unshelve it."""
    day.judge(says("server shelve web-3"))
    shelved = day.has("web-3", "SHELVED_OFFLOADED")
    day.waits_for(shelved["id"], runs=False)
    day.judge(says("server unshelve web-3"))
    day.is_where_it_says(day.has("web-3", "ACTIVE"))


def _evacuation(day: Day) -> None:
    """Lose a host and evacuate its servers to the other one; then bring the host back."""
    lost = day.fleet.host_called(day.has("web-1", "ACTIVE")[HOST])
    other = next(host for host in day.fleet.hosts if host is not lost)
    lost.kill_agent()
    day.judge(says(f"compute service set --down {lost.name} nova-compute"))
    names = [
        one["Name"] for one in day.call(f"openstack server list --host {lost.name} -f json").json
    ]
    for name in names:
        day.judge(shows(f"server evacuate {name}", name=name))
    for name in names:  # from microversion 2.95 on, evacuated servers stay stopped
        assert day.has(name, "SHUTOFF")[HOST] == other.name
        day.judge(says(f"server start {name}"))
    day.fleet.start_agent(lost)
    day.judge(says(f"compute service set --up {lost.name} nova-compute"))
    wait_until(lambda: not lost.running())
    for name in names:
        day.is_where_it_says(day.has(name, "ACTIVE"))


def _reservation(day: Day) -> None:
    """List the servers of one create with novaclient's program."""
    made = day.call("openstack server show web-1 -f json").json
    assert made["OS-EXT-SRV-ATTR:reservation_id"].startswith("r-")
    listed = day.call(f"nova list --reservation-id {made['OS-EXT-SRV-ATTR:reservation_id']}")
    assert sorted(name for name in _NAMES if name in listed.out) == sorted(_NAMES)


def _library(day: Day) -> None:
    """Run guest_story.py, which uses the libraries."""
    environment = day.fleet.cloud.environment("openstack")
    done = subprocess.run(
        [str(PYTHON), "-m", "tests.e2e.clients.guest_story"],
        cwd=ROOT,
        env=client_environment({**environment, "PATH": os.environ["PATH"]}),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
