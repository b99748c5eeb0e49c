"""Hosts before microversion 2.43: lists, amounts, and switching their service on and off."""

import pytest

from tests.unit.api.cloud import Stack

PATH = "/v2.1/os-hosts"


async def test_hosts_are_listed_by_zone(stack: Stack) -> None:
    """The list has hosts whose service is enabled; it exists up to 2.42, for administrators."""
    lines = [
        {"host_name": f"host-{number}", "service": "compute", "zone": "nova"} for number in range(3)
    ]
    assert (await stack.ask("GET", PATH, version="2.42")).body == {"hosts": lines}
    assert (await stack.ask("GET", f"{PATH}?zone=nova")).body == {"hosts": lines}
    assert (await stack.ask("GET", f"{PATH}?zone=other")).body == {"hosts": []}
    assert (await stack.ask("GET", PATH, version="2.43")).status == 404
    assert (await stack.ask("GET", PATH, token="alice:web")).status == 403


async def test_a_host_shows_what_projects_use(stack: Stack) -> None:
    """The amounts are the total, the usage, the sum of all servers, and that of each project."""
    for project in ("web", "shop", "web"):
        uuid = await stack.server(token=f"alice:{project}")
        await stack.activate(uuid)
    used = {"cpu": 0, "memory_mb": 0, "disk_gb": 0}
    projects: dict[str, int] = {}
    for number in range(3):
        host = f"host-{number}"
        shown = (await stack.ask("GET", f"{PATH}/{host}")).body["host"]
        rows = {one["resource"].pop("project"): one["resource"] for one in shown}
        assert all(row.pop("host") == host for row in rows.values())
        assert rows.pop("(total)") == {"cpu": 16, "memory_mb": 65536, "disk_gb": 1000}
        most = rows.pop("(used_max)")
        # The host reserves 512 MiB for itself.
        assert rows.pop("(used_now)") == {**most, "memory_mb": most["memory_mb"] + 512}
        for name, amount in most.items():
            assert amount == sum(row[name] for row in rows.values())
            used[name] += amount
        for project, row in rows.items():
            projects[project] = projects.get(project, 0) + row["cpu"]
    assert used == {"cpu": 6, "memory_mb": 3 * 4096, "disk_gb": 60}
    assert projects == {"web": 4, "shop": 2}
    assert (await stack.ask("GET", f"{PATH}/none")).status == 404


@pytest.mark.parametrize(("word", "status"), [("disable", "disabled"), ("Enable", "enabled")])
async def test_a_service_is_switched(stack: Stack, word: str, status: str) -> None:
    """The status is that of the service, and a disabled host is not listed."""
    answer = await stack.ask("PUT", f"{PATH}/host-0", {"status": word})
    assert answer.body == {"host": "host-0", "status": status}
    services = await stack.ask("GET", "/v2.1/os-services?host=host-0")
    assert services.body["services"][0]["status"] == status
    listed = (await stack.ask("GET", PATH)).body["hosts"]
    assert len(listed) == (3 if status == "enabled" else 2)


async def test_machines_are_left_alone(stack: Stack) -> None:
    """Power actions and the maintenance mode return 501, or 404 for an unknown host."""
    for host, status in (("host-0", 501), ("none", 404)):
        for act in ("startup", "shutdown", "reboot"):
            assert (await stack.ask("GET", f"{PATH}/{host}/{act}")).status == status
        body = {"maintenance_mode": "enable"}
        assert (await stack.ask("PUT", f"{PATH}/{host}", body)).status == status
    for wrong in ({}, {"status": "off"}, {"status": None}, {"more": 1}):
        assert (await stack.ask("PUT", f"{PATH}/host-0", wrong)).status == 400
