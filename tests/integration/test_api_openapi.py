"""The API keeps to its OpenAPI document for any request (schemathesis, in process)."""

import asyncio
import os
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.checks import negative_data_rejection, positive_data_acceptance

from berth.adapters.virt.fake import FakeDriver, FakeHost
from berth.agent.vnc_channels import HostConsoles
from berth.domain.compute.instance import Instance
from berth.services.gateway.host_queries import serve_queries
from tests.unit.api.cloud import Stack
from tests.unit.api.zones.tree import Net, ZoneStack

# Neither check can hold: a flavor that the schema allows need not exist, and unknown query
# parameters are ignored, as in Nova.
EXCLUDED = [positive_data_acceptance, negative_data_rejection]
# Of each operation; the variable asks for more.
EXAMPLES = int(os.environ.get("BERTH_FUZZ_EXAMPLES", "6"))


cloud = ZoneStack(Net(), "root", number=1)
schema = schemathesis.openapi.from_asgi("/openapi.json", cloud.app)


@pytest.fixture(scope="module")
def keys() -> dict[str, str]:
    """Create a record of each kind, so that not every path leads to 404, and return their keys."""
    return asyncio.run(furnish(cloud))


async def furnish(stack: Stack) -> dict[str, str]:
    """Create a record of each kind in the cloud, and return their keys by path parameter."""
    await stack.start()
    await stack.flavor("small")
    spec = {"extra_specs": {"key": "value"}}
    await stack.ask("POST", "/v2.1/flavors/small/os-extra_specs", spec)
    server = await stack.server(metadata={"key": "value"})
    await stack.activate(server)
    await answer_queries(stack, server)
    await stack.ask("POST", "/v2.1/os-aggregates", {"aggregate": {"name": "a"}})
    group = {"server_group": {"name": "g", "policies": ["affinity"]}}
    made = await stack.ask("POST", "/v2.1/os-server-groups", group)
    instance = await stack.ask("GET", f"/berth/v1/instances/{server}")
    await stack.ask("POST", "/berth/v1/host-keys/host-0/token", {})
    await stack.ask("POST", "/zones", {"zone": {"name": "west", "api_url": "http://west.test"}})
    return {
        "server_id": server,
        "instance_uuid": server,
        "flavor_id": "small",
        "key": "key",
        "aggregate_id": "1",
        "group_id": made.body["server_group"]["id"],
        "request_id": instance.body["request_id"],
        "migration_id": "1",
        "name": "host-0",
        "host": "host-0",
        "service_id": "enable",
        "hypervisor_id": "node",
        "zone_id": "1",
    }


async def answer_queries(stack: Stack, server: str) -> None:
    """Answer the queries about the hosts, each of which has the guest of the server."""
    guest = await stack.ledger.get(Instance, server)
    assert guest is not None
    for host in ("host-0", "host-1", "host-2"):
        driver = FakeDriver(FakeHost(host), stack.clock)
        await driver.spawn(guest)
        serve_queries(stack.bus, host, HostConsoles(host, driver, stack.clock))


@schema.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
def test_answers_are_as_described(case: Case[Any], keys: dict[str, str]) -> None:
    """No answer is a server error or has a status, content type or body beyond the document."""
    # About half of the requests name existing records, except requests that would remove them.
    generated = "".join(str(value) for value in (case.path_parameters or {}).values())
    if case.method != "DELETE" and len(generated) % 2 == 0:
        case.path_parameters = {
            name: keys.get(name, value) for name, value in case.path_parameters.items()
        }
    case.call_and_validate(excluded_checks=EXCLUDED)
    assert cloud.told.failures == []
