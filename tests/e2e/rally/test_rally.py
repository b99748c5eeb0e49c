"""Scenarios of OpenStack Rally against a Berth with simulated hosts; the docs list them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Processes
from tests.e2e.rally.suite import faults
from tests.e2e.suite_runs import ROOT, check_installed, run_suite
from tests.e2e.tempest.test_tempest import start

PAGE = ROOT / "docs" / "reference" / "rally.md"
TIMEOUT_S = 600

_SERVER: dict[str, Any] = {"flavor": {"name": "m42"}, "image": {"name": "image-1"}}
_RESIZE: dict[str, Any] = {**_SERVER, "to_flavor": {"name": "m84"}, "confirm": True}
_FLAVOR: dict[str, Any] = {"ram": 64, "vcpus": 1, "disk": 1}
_GROUP: dict[str, Any] = {"policies": ["affinity"]}
_ZONE = {"availability_zone": "zone-1"}
_BOUNCES = ("soft_reboot", "hard_reboot", "stop_start", "rescue_unrescue", "lock_unlock")
_ARGUMENTS: dict[str, dict[str, Any]] = {
    "NovaAggregates.create_aggregate_add_and_remove_host": _ZONE,
    "NovaAggregates.create_aggregate_add_host_and_boot_server": {
        **_FLAVOR,
        "image": _SERVER["image"],
        "metadata": {"disk": "fast"},
        # The server asks for the zone by name, so the aggregates of no other scenario have it.
        "availability_zone": "zone-2",
    },
    "NovaAggregates.create_and_delete_aggregate": _ZONE,
    "NovaAggregates.create_and_get_aggregate_details": _ZONE,
    "NovaAggregates.create_and_list_aggregates": _ZONE,
    "NovaAggregates.create_and_update_aggregate": _ZONE,
    "NovaAggregates.list_aggregates": {},
    "NovaAvailabilityZones.list_availability_zones": {"detailed": True},
    "NovaFlavors.create_and_delete_flavor": _FLAVOR,
    "NovaFlavors.create_and_get_flavor": _FLAVOR,
    "NovaFlavors.create_and_list_flavor_access": _FLAVOR,
    "NovaFlavors.create_flavor": _FLAVOR,
    "NovaFlavors.create_flavor_and_add_tenant_access": _FLAVOR,
    "NovaFlavors.create_flavor_and_set_keys": {
        **_FLAVOR,
        "extra_specs": {"quota:disk_read_bytes_sec": 10_240},
    },
    "NovaFlavors.list_flavors": {},
    "NovaHypervisors.list_and_get_hypervisors": {"detailed": True},
    "NovaHypervisors.list_and_get_uptime_hypervisors": {"detailed": True},
    "NovaHypervisors.list_and_search_hypervisors": {"detailed": True},
    "NovaHypervisors.list_hypervisors": {"detailed": True},
    "NovaHypervisors.statistics_hypervisors": {},
    "NovaKeypair.boot_and_delete_server_with_keypair": _SERVER,
    "NovaKeypair.create_and_delete_keypair": {},
    "NovaKeypair.create_and_get_keypair": {},
    "NovaKeypair.create_and_list_keypairs": {},
    "NovaServerGroups.create_and_delete_server_group": _GROUP,
    "NovaServerGroups.create_and_get_server_group": _GROUP,
    "NovaServerGroups.create_and_list_server_groups": {**_GROUP, "all_projects": False},
    "NovaServers.boot_and_bounce_server": {
        **_SERVER,
        "actions": [{action: 1} for action in _BOUNCES],
    },
    "NovaServers.boot_and_delete_multiple_servers": {**_SERVER, "count": 2},
    "NovaServers.boot_and_delete_server": _SERVER,
    "NovaServers.boot_and_get_console_output": _SERVER,
    "NovaServers.boot_and_get_console_url": {**_SERVER, "console_type": "novnc"},
    "NovaServers.boot_and_list_server": {**_SERVER, "detailed": True},
    "NovaServers.boot_and_live_migrate_server": {**_SERVER, "block_migration": False},
    "NovaServers.boot_and_migrate_server": _SERVER,
    "NovaServers.boot_and_rebuild_server": {
        "flavor": _SERVER["flavor"],
        "from_image": _SERVER["image"],
        "to_image": {"name": "image-2"},
    },
    "NovaServers.boot_and_show_server": _SERVER,
    "NovaServers.boot_and_update_server": _SERVER,
    "NovaServers.boot_lock_unlock_and_delete": _SERVER,
    "NovaServers.boot_server": _SERVER,
    "NovaServers.list_servers": {"detailed": True},
    "NovaServers.pause_and_unpause_server": _SERVER,
    "NovaServers.resize_server": _RESIZE,
    "NovaServers.resize_shutoff_server": _RESIZE,
    "NovaServers.shelve_and_unshelve_server": _SERVER,
    "NovaServers.snapshot_server": _SERVER,
    "NovaServers.suspend_and_resume_server": _SERVER,
    "NovaServices.list_services": {},
}
_WAITED_FOR = (
    "boot",
    "delete",
    "live_migrate",
    "migrate",
    "pause",
    "reboot",
    "rebuild",
    "rescue",
    "resize",
    "resize_confirm",
    "resume",
    "shelve",
    "start",
    "stop",
    "suspend",
    "unpause",
    "unrescue",
    "unshelve",
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(TIMEOUT_S + 100)]


def documented() -> tuple[set[str], set[str]]:
    """Return the names of the scenarios that the page says run, and of those that do not."""
    found: dict[str, set[str]] = {"Run": set(), "Not run": set()}
    names = None
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith("#"):
            names = found.get(line.lstrip("# ").partition(":")[0])
        elif names is not None and (named := re.match(r"- `([\w.]+)`", line)):
            assert not any(named[1] in one for one in found.values()), f"{named[1]} is there twice"
            names.add(named[1])
    return found["Run"], found["Not run"]


def configure(folder: Path, url: str) -> list[str]:
    """Write the settings of Rally, the environment and the task, and return their paths."""
    # Rally waits a second before it asks whether a server is ready; simulated ones are in less.
    settings = [f"nova_server_{action}_prepoll_delay = 0" for action in _WAITED_FOR]
    settings += [f"nova_server_{action}_poll_interval = 0.1" for action in _WAITED_FOR]
    lines = ["[database]", f"connection = sqlite:///{folder / 'rally.sqlite'}"]
    conf = "\n".join([*lines, "[openstack]", *settings, ""])
    domains = {"user_domain_name": "Default", "project_domain_name": "Default"}
    admin = {"username": "admin", "password": "admin", "project_name": "admin", **domains}
    member = {"username": "member", "password": "member", "project_name": "p1", **domains}
    cloud = {
        "auth_url": f"{url}/identity/v3/",
        "region_name": "RegionOne",
        "endpoint_type": "public",
        "admin": admin,
        "users": [member],
    }
    runner = {"type": "serial", "times": 1}
    task = {name: [{"args": one, "runner": runner}] for name, one in _ARGUMENTS.items()}
    files = {
        "rally.conf": conf,
        "cloud.json": json.dumps({"openstack": cloud}),
        "task.json": json.dumps(task),
    }
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    return [str(folder / name) for name in files]


def test_a_fault_of_a_scenario_is_found() -> None:
    """An error, a criterion that is not met and a scenario without iterations are faults."""
    met = {"success": True, "detail": "0% failed"}
    passed = {"sla_results": {"sla": [met]}, "data": [{"error": []}], "pass_sla": True}
    assert faults(passed) == []
    assert faults({**passed, "data": [{"error": ["Conflict", "locked"]}]}) == ["Conflict locked"]
    missed = {"sla": [met, {"success": False, "detail": "100% failed"}]}
    assert faults({**passed, "sla_results": missed}) == ["100% failed"]
    assert faults({**passed, "pass_sla": False}) == ["1 iterations, pass_sla is False"]
    assert faults({**passed, "data": []}) == ["0 iterations, pass_sla is True"]


def test_rallys_scenarios_pass_and_are_those_of_the_page(
    processes: Processes, tmp_path: Path
) -> None:
    """Each scenario passes; the page names all that run, and all others that Rally has for Nova."""
    check_installed("rally")
    run, others = documented()
    results = tmp_path / "results.json"
    files = configure(tmp_path, start(processes))
    errors = run_suite("rally", *files, str(results), timeout_s=TIMEOUT_S)
    found = json.loads(results.read_text("utf-8"))
    wrong = [f"{name}: {text}" for name, texts in found["ran"].items() for text in texts]
    assert not wrong, "\n\n".join([f"{len(wrong)} faults", *wrong])
    assert found["status"] == "finished", errors[-4000:]
    assert set(found["ran"]) == set(_ARGUMENTS) == run
    assert set(found["scenarios"]) == run | others
