"""Hypervisors in the compute API."""

from urllib.parse import urlsplit

import pytest

from berth.adapters.virt.fake import FakeDriver, FakeHost
from berth.agent.vnc_channels import HostConsoles
from berth.services.gateway.host_queries import serve_queries
from tests.unit.api.cloud import Json, Stack

PATH = "/v2.1/os-hypervisors"
UUID = "11111111-0000-4000-8000-000000000000"


async def read(stack: Stack, path: str, version: str) -> list[Json]:
    """Return a list of hypervisors."""
    answer = await stack.ask("GET", f"{PATH}{path}", version=version)
    assert answer.status == 200, answer.body
    found: list[Json] = answer.body["hypervisors"]
    return found


async def test_a_hypervisor_is_shown(stack: Stack) -> None:
    """From 2.88 on, the amounts and the usage are left out, since Placement shows them."""
    shown = (await stack.ask("GET", f"{PATH}/{UUID}", version="2.88")).body["hypervisor"]
    assert shown == {
        "id": UUID,
        "hypervisor_hostname": "node-0",
        "state": "up",
        "status": "enabled",
        "hypervisor_type": "fake",
        "hypervisor_version": 1,
        "host_ip": "10.0.0.0",
        "service": {"id": shown["service"]["id"], "host": "host-0", "disabled_reason": None},
        "uptime": None,
    }
    older = (await stack.ask("GET", f"{PATH}/{UUID}", version="2.87")).body["hypervisor"]
    assert (older["vcpus"], older["memory_mb"], older["local_gb"]) == (16, 65_536, 1000)
    assert older["memory_mb_used"] == 512
    assert older["free_ram_mb"] == 65_024
    assert older["cpu_info"] == {"arch": "x86_64"}
    assert "uptime" not in older


async def test_usage_counts_servers(stack: Stack) -> None:
    """The usage includes servers, and the statistics add it up."""
    await stack.server(availability_zone="nova:host-0")
    await stack.follower.catch_up()
    (first, *_) = await read(stack, "/detail", "2.53")
    assert (first["vcpus_used"], first["running_vms"]) == (2, 1)
    total = (await stack.ask("GET", f"{PATH}/statistics")).body["hypervisor_statistics"]
    assert (total["count"], total["vcpus"], total["vcpus_used"]) == (3, 48, 2)
    assert total["memory_mb_used"] == 3 * 512 + 4096


async def test_before_2_53_ids_are_numbers(stack: Stack) -> None:
    """Before 2.53, a hypervisor is found by its number; from then on, by its uuid."""
    (first, *_) = await read(stack, "/detail", "2.52")
    assert isinstance(first["id"], int)
    assert isinstance(first["service"]["id"], int)
    shown = await stack.ask("GET", f"{PATH}/{first['id']}", version="2.52")
    assert shown.body["hypervisor"]["hypervisor_hostname"] == "node-0"
    assert (await stack.ask("GET", f"{PATH}/{UUID}", version="2.52")).status == 404
    assert (await stack.ask("GET", f"{PATH}/{first['id']}", version="2.53")).status == 404
    assert isinstance((await read(stack, "/detail", "2.27"))[0]["cpu_info"], str)


async def test_servers_come_on_demand(stack: Stack) -> None:
    """With `with_servers`, servers are listed; from 2.75 on, also an empty list."""
    uuid = await stack.server(availability_zone="nova:host-0")
    (first, second, _) = await read(stack, "?with_servers=1", "2.74")
    assert first["servers"] == [{"name": "vm", "uuid": uuid}]
    assert "servers" not in second
    assert (await read(stack, "?with_servers=true", "2.75"))[1]["servers"] == []
    assert "servers" not in (await read(stack, "", "2.75"))[0]
    shown = await stack.ask("GET", f"{PATH}/{UUID}?with_servers=1", version="2.53")
    assert len(shown.body["hypervisor"]["servers"]) == 1


async def test_a_text_finds_hypervisors(stack: Stack) -> None:
    """A text is searched by separate paths before 2.53, and by a parameter from then on."""
    await stack.server(availability_zone="nova:host-1")
    (found,) = await read(stack, "?hypervisor_hostname_pattern=de-1", "2.53")
    assert found["hypervisor_hostname"] == "node-1"
    assert len(await read(stack, "/node/search", "2.52")) == 3
    (found,) = await read(stack, "/node-1/servers", "2.52")
    assert len(found["servers"]) == 1
    for path, version in (
        ("/none/search", "2.52"),
        ("?hypervisor_hostname_pattern=none", "2.53"),
        ("/node/search", "2.53"),
    ):
        assert (await stack.ask("GET", PATH + path, version=version)).status == 404
    both = "?hypervisor_hostname_pattern=n&limit=1"
    assert (await stack.ask("GET", PATH + both, version="2.53")).status == 400


@pytest.mark.parametrize("version", ["2.33", "2.53"])
async def test_pages_join_to_the_whole(stack: Stack, version: str) -> None:
    """The links of the pages lead to all hypervisors, with either kind of id."""
    path, seen = f"{PATH}/detail?limit=2", list[str]()
    while path:
        page = (await stack.ask("GET", path, version=version)).body
        seen += [one["hypervisor_hostname"] for one in page["hypervisors"]]
        (link,) = page.get("hypervisors_links", [{"href": ""}])
        parts = urlsplit(link["href"])
        path = f"{parts.path}?{parts.query}" if link["href"] else ""
    assert seen == ["node-0", "node-1", "node-2"]
    bad = await stack.ask("GET", f"{PATH}?marker=none", version=version)
    assert bad.status == 400


async def test_a_silent_host_is_down(stack: Stack) -> None:
    """A host is down a minute after its last heartbeat."""
    stack.clock.seconds += 61
    assert {one["state"] for one in await read(stack, "", "2.53")} == {"down"}


async def test_a_name_is_no_id(stack: Stack) -> None:
    """A name as the id gets 404, which clients expect before they search by name."""
    assert (await stack.ask("GET", f"{PATH}/node-0", version="2.88")).status == 404


async def test_the_uptime_is_read_from_the_agent(stack: Stack) -> None:
    """It is at a path of its own before 2.88, and a field of the details from then on."""
    answer = await stack.ask("GET", f"{PATH}/{UUID}/uptime", version="2.53")
    assert answer.status == 400  # as in Nova when the agent does not answer
    driver = FakeDriver(FakeHost("host-0"), stack.clock)
    serve_queries(stack.bus, "host-0", HostConsoles("host-0", driver, stack.clock))
    stack.clock.seconds += 90_000
    answer = await stack.ask("GET", f"{PATH}/{UUID}/uptime", version="2.87")
    assert answer.status == 200
    shown = answer.body["hypervisor"]
    assert set(shown) == {"id", "hypervisor_hostname", "state", "status", "uptime"}
    assert "up 1 day, 1:00,  0 users,  load average: 0.00, 0.00, 0.00" in shown["uptime"]
    assert (await stack.ask("GET", f"{PATH}/{UUID}/uptime", version="2.88")).status == 404
    assert (await stack.ask("GET", f"{PATH}/none/uptime", version="2.53")).status == 404


async def test_a_list_has_the_uptimes_of_hosts_that_answer(stack: Stack) -> None:
    """A host that is down or does not answer has the uptime null."""
    for host in ("host-0", "host-1"):
        driver = FakeDriver(FakeHost(host), stack.clock)
        serve_queries(stack.bus, host, HostConsoles(host, driver, stack.clock))
    services = (await stack.ask("GET", "/v2.1/os-services", version="2.53")).body["services"]
    (down,) = (one["id"] for one in services if one["host"] == "host-1")
    await stack.ask("PUT", f"/v2.1/os-services/{down}", {"forced_down": True}, version="2.53")
    found = [one["uptime"] for one in await read(stack, "/detail", "2.88")]
    assert found[0] is not None
    assert found[1:] == [None, None]
    assert all("uptime" not in one for one in await read(stack, "", "2.88"))
