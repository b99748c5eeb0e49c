"""Server groups across zones: the members of an affinity group share one zone."""

import httpx
import pytest

from tests.e2e.conftest import Processes
from tests.e2e.zones.tree import RunningZone, start_zone


def member(root: RunningZone, group: str) -> str:
    """Create a server of a group, wait until it is ACTIVE, and return its id."""
    body = {
        "server": {"name": "vm", "flavorRef": "small", "networks": "none"},
        "os:scheduler_hints": {"group": group},
    }
    made = root.service.post("/zones/servers", body)
    listed = root.service.get("/v2.1/servers", reservation_id=made["reservation_id"])
    (server,) = listed["servers"]
    assert root.service.wait_for_status(server["id"], "ACTIVE", "ERROR")["status"] == "ACTIVE"
    return str(server["id"])


@pytest.mark.timeout(240)
def test_a_group_follows_its_members_and_leaves_when_they_are_gone(processes: Processes) -> None:
    """A group's members share a zone; once they are deleted, the group can move to another."""
    root = start_zone(processes, "root", vcpus=0)
    children = [start_zone(processes, name, vcpus=4) for name in ("west", "east")]
    root.wait(hosts=0)
    root.service.flavor("small", vcpus=1, ram=512)
    for child in children:
        child.wait()
        child.trust(root)
        root.adopt(child)
    root.wait_for_children()
    body = {"server_group": {"name": "g", "policy": "affinity"}}
    group = root.service.post("/v2.1/os-server-groups", body)["server_group"]["id"]
    members = [member(root, group) for _ in range(3)]
    used = [child.used_vcpus() for child in children]
    assert sorted(used) == [0, 3]
    shown = root.service.get(f"/v2.1/os-server-groups/{group}")["server_group"]
    assert sorted(shown["members"]) == sorted(members)
    for uuid in members:
        root.delete(uuid)
    home = children[used.index(3)]
    other = children[used.index(0)]
    (number,) = [
        one["id"] for one in root.service.get("/zones")["zones"] if one["name"] == home.name
    ]
    url, disabled = f"{root.service.url}/zones/{number}", {"zone": {"is_enabled": False}}
    httpx.put(url, json=disabled, trust_env=False, timeout=60.0).raise_for_status()
    member(root, group)
    assert other.used_vcpus() == 1
