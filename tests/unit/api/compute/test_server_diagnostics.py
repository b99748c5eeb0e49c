"""Diagnostics of servers in the compute API."""

import pytest

from berth.adapters.virt.fake import FakeDriver, FakeHost
from berth.agent.vnc_channels import HostConsoles
from berth.domain.compute.instance import Instance
from berth.ports.virt import DriverFeature
from berth.services.gateway.host_queries import serve_queries
from tests.unit.api.cloud import Json, Stack


async def host_of(stack: Stack, uuid: str, *lacks: DriverFeature) -> FakeDriver:
    """Serve the queries to the host of a server, and return its driver, with the guest."""
    instance = await stack.ledger.get(Instance, uuid)
    assert instance is not None
    assert instance.host is not None
    driver = FakeDriver(FakeHost(instance.host, lacks=frozenset(lacks)), stack.clock)
    serve_queries(stack.bus, instance.host, HostConsoles(instance.host, driver, stack.clock))
    await driver.spawn(instance)
    return driver


async def read(stack: Stack, uuid: str, version: str) -> Json:
    """Return the diagnostics of a server."""
    answer = await stack.ask("GET", f"/v2.1/servers/{uuid}/diagnostics", version=version)
    assert answer.status == 200, answer.body
    found: Json = answer.body
    return found


async def test_from_2_48_on_all_drivers_have_the_same_fields(stack: Stack) -> None:
    """The response has each CPU and disk of the guest, and the time since its launch."""
    uuid = await stack.server(config_drive=True)
    await stack.activate(uuid)
    await host_of(stack, uuid)
    stack.clock.seconds += 100
    assert await read(stack, uuid, "2.48") == {
        "config_drive": True,
        "state": "running",
        "driver": "libvirt",
        "hypervisor": "fake",
        "hypervisor_os": "linux",
        "uptime": 100,
        "num_cpus": 2,
        "num_nics": 0,
        "num_disks": 1,
        "cpu_details": [{"id": at, "time": 5_000_000_000, "utilisation": None} for at in (0, 1)],
        "nic_details": [],
        "disk_details": [
            {
                "read_bytes": 67_108_864,
                "read_requests": 16_384,
                "write_bytes": 409_600,
                "write_requests": 100,
                "errors_count": 0,
            }
        ],
        "memory_details": {"maximum": 4096, "used": 4096},
    }


async def test_before_2_48_the_fields_are_those_of_libvirt(stack: Stack) -> None:
    """The flat object has the names that Nova's libvirt driver uses, with memory in KiB."""
    uuid = await stack.server()
    await host_of(stack, uuid)
    assert await read(stack, uuid, "2.47") == {
        "cpu0_time": 0,
        "cpu1_time": 0,
        "vda_read_req": 16_384,
        "vda_read": 67_108_864,
        "vda_write_req": 0,
        "vda_write": 0,
        "vda_errors": 0,
        "memory": 4_194_304,
        "memory-actual": 4_194_304,
        "memory-rss": 2_097_152,
    }


async def test_without_a_running_guest_there_are_none(stack: Stack) -> None:
    """A stopped guest gets 409, and a host whose agent does not answer 503."""
    uuid = await stack.server()
    path = f"/v2.1/servers/{uuid}/diagnostics"
    assert (await stack.ask("GET", path)).status == 503
    driver = await host_of(stack, uuid)
    await driver.stop(uuid, grace_s=0)
    answer = await stack.ask("GET", path)
    assert answer.status == 409
    assert "not running" in answer.body["conflictingRequest"]["message"]
    assert (await stack.ask("GET", "/v2.1/servers/none/diagnostics")).status == 404


async def test_a_driver_without_diagnostics_gets_501(stack: Stack) -> None:
    """A driver that lacks the feature differs from one that fails."""
    uuid = await stack.server()
    await host_of(stack, uuid, DriverFeature.DIAGNOSTICS)
    assert (await stack.ask("GET", f"/v2.1/servers/{uuid}/diagnostics")).status == 501


@pytest.mark.parametrize("version", ["2.1", "2.48"])
async def test_only_administrators_see_them(stack: Stack, version: str) -> None:
    """The owner of a server gets 403."""
    uuid = await stack.server(token="alice:web")
    path = f"/v2.1/servers/{uuid}/diagnostics"
    assert (await stack.ask("GET", path, version=version, token="alice:web")).status == 403
