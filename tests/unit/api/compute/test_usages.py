"""The usage of projects over time, the audit log that is never written, and the empty password."""

from dataclasses import replace

import pytest

from berth.domain.compute.instance import Status
from berth.domain.ledger.write import Put
from tests.unit.api.cloud import NOW_S, Json, Stack

PATH = "/v2.1/os-simple-tenant-usage"
HOUR_S = 3600.0
# NOW_S is 2027-01-15T08:00:00; the period is the four hours before.
PERIOD = "start=2027-01-15T04:00:00&end=2027-01-15T09:00:00"


async def server(
    stack: Stack, project: str, launched_h: float | None, ended_h: float | None = None
) -> str:
    """Create a server that was launched, and possibly deleted, so many hours ago."""
    uuid = await stack.server(token=f"alice:{project}")
    instance = await stack.parts.instances.get(uuid)
    launched_s = None if launched_h is None else NOW_S - launched_h * HOUR_S
    changed = replace(instance, launched_at_s=launched_s, status=Status.ACTIVE)
    if ended_h is not None:
        ended_s = NOW_S - ended_h * HOUR_S
        changed = replace(changed, status=Status.DELETED, terminated_at_s=ended_s)
    await stack.ledger.commit([(Put(changed),)])
    return uuid


async def usage(stack: Stack, project: str = "web", query: str = PERIOD, **more: str) -> Json:
    """Return the usage of a project."""
    answer = await stack.ask("GET", f"{PATH}/{project}?{query}", **more)  # type: ignore[arg-type]
    assert answer.status == 200, answer.body
    found: Json = answer.body["tenant_usage"]
    return found


async def test_usage_is_charged_within_the_period(stack: Stack) -> None:
    """A server counts from its launch to its deletion, as far as both are in the period."""
    await server(stack, "web", 10, 5)
    await server(stack, "web", None)
    whole = await server(stack, "web", 10)
    half = await server(stack, "web", 3, 1)
    await server(stack, "shop", 1)
    found = await usage(stack, token="alice:web")
    servers = {one["instance_id"]: one for one in found.pop("server_usages")}
    assert found == {
        "tenant_id": "web",
        "start": "2027-01-15T04:00:00.000000",
        "stop": "2027-01-15T08:00:00.000000",
        "total_hours": 6.0,
        "total_vcpus_usage": 12.0,
        "total_memory_mb_usage": 6.0 * 4096,
        "total_local_gb_usage": 120.0,
    }
    assert servers.keys() == {whole, half}
    assert servers[half] == {
        "instance_id": half,
        "name": "vm",
        "hours": 2.0,
        "flavor": "small",
        "tenant_id": "web",
        "memory_mb": 4096,
        "local_gb": 20,
        "vcpus": 2,
        "started_at": "2027-01-15T05:00:00.000000",
        "ended_at": "2027-01-15T07:00:00.000000",
        "state": "terminated",
        "uptime": 7200,
    }
    assert (servers[whole]["state"], servers[whole]["ended_at"]) == ("active", None)
    assert (servers[whole]["hours"], servers[whole]["uptime"]) == (4.0, 36_000)
    assert await usage(stack, "empty") == {}


async def test_administrators_see_all_projects(stack: Stack) -> None:
    """The list has one entry a project, with its servers only on request."""
    await server(stack, "web", 1)
    await server(stack, "shop", 2)
    listed = await stack.ask("GET", f"{PATH}?{PERIOD}")
    hours = {one["tenant_id"]: one["total_hours"] for one in listed.body["tenant_usages"]}
    assert hours == {"web": 1.0, "shop": 2.0}
    assert all("server_usages" not in one for one in listed.body["tenant_usages"])
    detailed = await stack.ask("GET", f"{PATH}?{PERIOD}&detailed=1")
    assert all(len(one["server_usages"]) == 1 for one in detailed.body["tenant_usages"])
    assert (await stack.ask("GET", PATH, token="alice:web")).status == 403
    assert (await stack.ask("GET", f"{PATH}/shop?{PERIOD}", token="alice:web")).status == 403


async def test_pages_of_servers_came_with_2_40(stack: Stack) -> None:
    """A page has so many servers and links to the next; the sums are those of the page."""
    servers = {await server(stack, "web", 1) for _ in range(3)}
    seen: set[str] = set()
    path = f"{PATH}/web?{PERIOD}&limit=2"
    for count in (2, 1):
        answer = await stack.ask("GET", path, version="2.40")
        found = answer.body["tenant_usage"]
        assert found["total_hours"] == float(count)
        seen |= {one["instance_id"] for one in found["server_usages"]}
        links = answer.body.get("tenant_usage_links", [])
        path = links[0]["href"].removeprefix("http://berth.test") if links else ""
    assert (seen, path) == (servers, "")
    assert (await usage(stack, query=f"{PERIOD}&limit=1", version="2.39"))["total_hours"] == 3.0
    wrong = await stack.ask("GET", f"{PATH}/web?{PERIOD}&marker=none", version="2.40")
    assert wrong.status == 400
    none = await stack.ask("GET", f"{PATH}/web?{PERIOD}&limit=0", version="2.40")
    assert none.status == 200


@pytest.mark.parametrize(
    "query",
    [
        "start=2027-01-15T04:00:00&end=2027-01-15T04:00:00",
        "start=2027-01-15T09:00:00",
        "start=2027-01-15T05:00:00&end=2027-01-15T04:00:00",
        "start=2027-01-15",
        "start=yesterday",
        "start=2027-01-15T04:00:00Z",
        "start=99999-01-15T04:00:00",
    ],
)
async def test_a_bad_period_is_refused(stack: Stack, query: str) -> None:
    """A period that is malformed or empty returns 400."""
    assert (await stack.ask("GET", f"{PATH}/web?{query}")).status == 400


@pytest.mark.parametrize("start", ["2027-01-15T07:00:00.5", "2027-01-15 07:00:00.5"])
async def test_times_have_novas_formats(stack: Stack, start: str) -> None:
    """Fractions of seconds are accepted, with a space in place of the T."""
    await server(stack, "web", 5)
    assert (await usage(stack, query=f"start={start}"))["total_hours"] == pytest.approx(1.0, 1e-3)


async def test_no_host_has_made_an_audit(stack: Stack) -> None:
    """The log names the last whole month, and all hosts as those that made no audit."""
    log = (await stack.ask("GET", "/v2.1/os-instance_usage_audit_log")).body
    assert log["instance_usage_audit_logs"] == {
        "period_beginning": "2026-12-01 00:00:00",
        "period_ending": "2027-01-01 00:00:00",
        "num_hosts": 3,
        "num_hosts_done": 0,
        "num_hosts_running": 0,
        "num_hosts_not_run": 3,
        "hosts_not_run": ["host-0", "host-1", "host-2"],
        "total_instances": 0,
        "total_errors": 0,
        "overall_status": "0 of 3 hosts done. 0 errors.",
        "log": {},
    }
    path = "/v2.1/os-instance_usage_audit_log/"
    before = (await stack.ask("GET", f"{path}2026-03-31 10:00:00.000000")).body
    assert before["instance_usage_audit_log"]["period_beginning"] == "2026-02-01 00:00:00"
    for time in ("nonsense", "2026-03-31T10:00:00", "0001-01-01 00:00:00"):
        assert (await stack.ask("GET", f"{path}{time}")).status == 400
    assert (await stack.ask("GET", f"{path}x", token="alice:web")).status == 403


async def test_a_server_has_no_password(stack: Stack) -> None:
    """The password is empty, and clearing it changes nothing."""
    path = f"/v2.1/servers/{await stack.server(token='alice:web')}/os-server-password"
    assert (await stack.ask("GET", path, token="alice:web")).body == {"password": ""}
    assert (await stack.ask("DELETE", path, token="alice:web")).status == 204
    assert (await stack.ask("GET", path, token="bob:shop")).status == 404
    assert (await stack.ask("DELETE", path, token="bob:shop")).status == 404


async def test_without_times_the_usage_is_that_of_the_present(stack: Stack) -> None:
    """The servers that exist now are listed, and no hours are charged, as in Nova."""
    uuid = await stack.server(token="alice:web")
    await stack.activate(uuid)
    stack.clock.seconds += 3600
    answer = await stack.ask("GET", f"{PATH}/web")
    assert answer.status == 200
    found = answer.body["tenant_usage"]
    assert [one["instance_id"] for one in found["server_usages"]] == [uuid]
    assert found["total_hours"] == 0
    assert (await stack.ask("GET", PATH)).status == 200
