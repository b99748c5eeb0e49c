"""Bodies of actions, and answers about moves and quotas, compared with the real Nova's schemas."""

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest

from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.migration import MoveKind, Stage
from berth.domain.ledger.write import Committed, Put
from berth.testing.builders import make_action, make_migration
from tests.differential.nova import MISSING, PYTHON
from tests.unit.api.cloud import Stack

TOLD = Path(__file__).parent / "told.py"
IMAGE = "70a599e0-31e7-49b7-b260-868f441e862b"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJJSzOmi6xAM4Hjj0uS9AKo6V2WxyIHpyOhL4GJ0EpH1"
PERIOD = "start=2020-01-01T00:00:00"
QUOTA = "/v2.1/os-quota-sets/web"
CLASS = "/v2.1/os-quota-class-sets/default"
REQUIRED: dict[str, dict[str, object]] = {
    "reboot": {"type": "SOFT"},
    "resize": {"flavorRef": "large"},
    "rebuild": {"imageRef": IMAGE},
    "os-resetState": {"state": "active"},
    "os-migrateLive": {"host": None, "block_migration": False, "disk_over_commit": False},
    "evacuate": {"onSharedStorage": False},
}
VALUES: dict[str, list[object]] = {
    "host": ["host-2", None, 7],
    "onSharedStorage": [True, "False", "maybe", None],
    "adminPass": ["x", None, 5],
    "force": [False, "False", "maybe", None],
    "locked_reason": ["x", "", None, "y" * 255, "y" * 256],
    "block_migration": ["auto", True, "False", "x", None],
    "disk_over_commit": [False, "x", None],
    "availability_zone": ["nova", None, "", 5],
    "state": ["active", "error", "paused", None],
    "type": ["SOFT", "hard", "sOFT", None],
    "flavorRef": ["large", "", None],
    "OS-DCF:diskConfig": ["AUTO", "auto", None],
    "imageRef": [IMAGE, None, 5],
    "name": ["n", "", None],
    "metadata": [{"a": "b"}, {"a": 5}, None],
    "description": ["d", "", None, 5],
    "key_name": ["k", None, ""],
    "user_data": ["YQ==", None, 5],
    "trusted_image_certificates": [["a"], None, [5]],
    "hostname": ["box", None, ""],
    "preserve_ephemeral": [True, "x"],
    "accessIPv4": ["192.0.2.1", 5],
    "personality": [[{"path": "/a", "contents": "YQ=="}], None],
    "more": [1],
}
Row = tuple[str, int, int, dict[str, Any]]


@pytest.fixture(scope="module")
def told() -> dict[str, list[Row]]:
    """Return the schemas that the real Nova has."""
    if not PYTHON.exists():
        pytest.skip(MISSING)
    environment = {**os.environ, "OS_NOVA_DISABLE_EVENTLET_PATCHING": "1"}
    done = subprocess.run(
        [str(PYTHON), "-W", "ignore", str(TOLD)], capture_output=True, check=True, env=environment
    )
    found: dict[str, list[Row]] = json.loads(done.stdout)
    return found


def validator_of(schema: dict[str, Any]) -> jsonschema.Draft4Validator:
    """Return a validator of the kind that Nova uses for a schema."""
    return jsonschema.Draft4Validator(schema)


def bodies(name: str) -> Iterator[object]:
    """Yield arguments of an action: each field with each value, with or without a required one."""
    required = REQUIRED.get(name, {})
    yield from (None, {}, [], "x", 7, required)
    for field, values in VALUES.items():
        yield {key: value for key, value in required.items() if key != field}
        for value in values:
            yield {**required, field: value}
            for left_out in required.keys() - {field}:
                rest = {key: kept for key, kept in required.items() if key != left_out}
                yield {**rest, field: value}


async def busy_server(stack: Stack) -> str:
    """Create a server on a host that is down, and return its uuid."""
    await stack.flavor("large", vcpus=4)
    uuid = await stack.server()
    service = await stack.ask("GET", "/v2.1/os-services?host=host-0", version="2.53")
    path = f"/v2.1/os-services/{service.body['services'][0]['id']}"
    await stack.ask("PUT", path, {"forced_down": True}, version="2.53")
    await stack.activate(uuid)
    return uuid


async def add_key(stack: Stack) -> None:
    """Import the key pair `k`, which `VALUES` names."""
    body = {"keypair": {"name": "k", "public_key": KEY}}
    assert (await stack.ask("POST", "/v2.1/os-keypairs", body)).status == 200


async def make_busy(stack: Stack, uuid: str) -> None:
    """Set a server to building on a host that is down, so that no action can begin."""
    instance = await stack.ledger.get(Instance, uuid)
    assert instance is not None
    busy = replace(instance, status=Status.BUILD, task=Task.SPAWNING, host="host-0")
    await stack.ledger.commit([(Put(busy),)])


async def test_the_same_bodies_are_taken(told: dict[str, list[Row]]) -> None:
    """A body gets 400 exactly if Nova's schema refuses it, in its first and last version."""
    stack = Stack()
    await stack.start()
    await stack.flavor()
    uuid = await busy_server(stack)
    await add_key(stack)
    path = f"/v2.1/servers/{uuid}/action"
    different: list[object] = []
    asked = 0
    for name, since, until, schema in told["bodies"]:
        validator = validator_of(schema)
        for args in bodies(name):
            for minor in {since, until}:
                await make_busy(stack, uuid)
                answer = await stack.ask("POST", path, {name: args}, version=f"2.{minor}")
                assert answer.status < 500
                asked += 1
                if validator.is_valid(cast("Any", {name: args})) is (answer.status == 400):
                    different.append((name, minor, args, answer.body))
    assert different == []
    assert asked > 1000


async def test_answers_are_as_nova_has_them(told: dict[str, list[Row]]) -> None:
    """Answers about moves, actions, quotas and limits are valid in Nova's schemas."""
    stack = Stack()
    await stack.start()
    await stack.flavor()
    uuid = await stack.server()
    instance = await stack.ledger.get(Instance, uuid)
    assert instance is not None
    live = replace(make_migration(), instance_uuid=uuid, kind=MoveKind.LIVE, stage=Stage.MOVING)
    action = replace(make_action(), instance_uuid=uuid)
    other = replace(make_migration(2), stage=Stage.ARRIVED)
    held = replace(instance, migration_uuid=live.uuid, launched_at_s=instance.created_at_s - 9)
    (outcome,) = await stack.ledger.commit([(Put(live), Put(other), Put(action), Put(held))])
    assert isinstance(outcome, Committed)
    server = f"/v2.1/servers/{uuid}"
    paths = {
        "moves": "/v2.1/os-migrations?limit=1",
        "live": f"{server}/migrations",
        "history": f"{server}/os-instance-actions?limit=1",
        "action": f"{server}/os-instance-actions/{action.request_id}",
        "quota": QUOTA,
        "defaults": f"{QUOTA}/defaults",
        "usages": f"{QUOTA}/detail",
        "class": CLASS,
        "limits": "/v2.1/limits",
        "key pairs": "/v2.1/os-keypairs",
        "key pair": "/v2.1/os-keypairs/k",
        "all usages": f"/v2.1/os-simple-tenant-usage?detailed=1&{PERIOD}",
        "usage": f"/v2.1/os-simple-tenant-usage/admin?{PERIOD}",
        "audits": "/v2.1/os-instance_usage_audit_log",
        "hosts": "/v2.1/os-hosts",
        "host": "/v2.1/os-hosts/host-0",
        "password": f"{server}/os-server-password",
        "access": "/v2.1/flavors/private/os-flavor-access",
    }
    await stack.flavor("private", **{"os-flavor-access:is_public": False})
    access = {"addTenantAccess": {"tenant": "web"}}
    assert (await stack.ask("POST", "/v2.1/flavors/private/action", access)).status == 200
    await add_key(stack)
    for name, since, until, schema in told["answers"]:
        for minor in (since, until):
            answer = await stack.ask("GET", paths[name], version=f"2.{minor}")
            assert answer.status == 200
            assert validator_of(schema).is_valid(answer.body), (name, minor, answer.body)


async def test_what_changes_quotas_is_answered_as_nova_does(told: dict[str, list[Row]]) -> None:
    """Answers to changes of quotas are valid in Nova's schemas."""
    stack = Stack()
    await stack.start()
    paths = {"quota": (QUOTA, "quota_set"), "class": (CLASS, "quota_class_set")}
    for name, since, until, schema in told["changes"]:
        path, key = paths[name]
        for minor in (since, until):
            answer = await stack.ask("PUT", path, {key: {"cores": 7}}, version=f"2.{minor}")
            assert answer.status == 200
            assert validator_of(schema).is_valid(answer.body), (name, minor, answer.body)
