"""The responses of the compute API are those that Nova's own code and schemas accept.

Each operation is requested at every microversion at which one of Nova's schemas of its response
begins or ends, and just outside the microversions that have it.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
import pytest

from berth.api.app import OPERATIONS
from berth.api.microversion import MAX
from berth.api.routing import ApiOperation
from tests.differential.nova import MISSING, PYTHON
from tests.differential.peer import ROOT, Peer
from tests.differential.responses.changes import CHANGES, Sent
from tests.differential.responses.world import OWNER, World, make_world
from tests.unit.api.cloud import Answer

SCRIPT = ROOT / "tests" / "differential" / "responses" / "validating.py"
NEWEST = MAX[1]
# Operations that have no counterpart in Nova, or whose requests cannot succeed here.
LEFT_OUT = {
    ("GET", "/v2.1/v2/images"): "for clients that know this URL only",
    ("GET", "/v2.1/v2/images/{image_id}"): "likewise",
    ("DELETE", "/v2.1/os-services/{service_id}"): "its host would have to be gone",
    ("DELETE", "/v2.1/servers/{server_id}/migrations/{migration_id}"): "it ends the migration",
    ("POST", "/v2.1/servers/{server_id}/os-volume_attachments"): "always refused",
    ("POST", "/v2.1/servers/{server_id}/os-interface"): "always refused",
    ("DELETE", "/v2.1/images/{image_id}"): "always refused",
    ("GET", "/v2.1/servers/{server_id}/ips/{network}"): "no server has a network",
    # Nova's code returns the names of hosts here, but its schema requires uuids.
    ("GET", "/v2.1/os-instance_usage_audit_log"): "Nova's schema rejects Nova's responses",
    ("GET", "/v2.1/os-instance_usage_audit_log/{before}"): "likewise",
    ("GET", "/v2.1/os-console-auth-tokens/{console_token}"): "400 before 2.31, as by Nova's code",
    ("GET", "/v2.1/os-hosts/{host_name}/startup"): "always 501",
    ("GET", "/v2.1/os-hosts/{host_name}/shutdown"): "always 501",
    ("GET", "/v2.1/os-hosts/{host_name}/reboot"): "always 501",
}


class Route(NamedTuple):
    """A route of Nova, as `validating.py` describes it."""

    number: int
    since: int
    until: int
    is_removed: bool
    codes: list[tuple[int, int, int]]
    ranges: list[tuple[int, int]]

    def status(self, minor: int) -> int:
        """Return the status of a success at a minor version."""
        return next((code for code, low, high in self.codes if low <= minor <= high), 200)

    def minors(self) -> Iterator[int]:
        """Yield the minor versions at which the response is checked."""
        ends = {end for pair in self.ranges for end in pair} | {self.since, self.until, 1, NEWEST}
        last = min(self.until, NEWEST)
        yield from sorted({min(max(end, self.since), last) for end in ends})


Key = tuple[str, str, str | None]


class Validator(Peer):
    """A running peer that has Nova's schemas."""

    def __init__(self) -> None:
        super().__init__(PYTHON, SCRIPT)
        told: list[dict[str, Any]] = msgspec.json.decode(self.hello)
        self.routes: dict[Key, Route] = {}
        for index, one in enumerate(told):
            key = one.pop("method"), _shape(f"/v2.1{one.pop('path')}"), one.pop("action")
            self.routes[key] = Route(index, **one)

    def errors(self, items: Iterable[tuple[int, int, object]]) -> list[str | None]:
        """Return what Nova finds wrong in bodies of (route, minor version, body), or None."""
        found: list[str | None] = msgspec.json.decode(self.tell(list(items)))
        return found


def _shape(path: str) -> str:
    """Return a path with its parameters replaced by stars."""
    parts = ["*" if part.startswith("{") else part for part in path.split("/")]
    return "/".join(parts)


def _compute() -> list[ApiOperation]:
    return [one for one in OPERATIONS if one.path.startswith("/v2.1/")]


@pytest.fixture(scope="module")
def validator() -> Iterator[Validator]:
    """Yield a running peer with Nova's schemas."""
    if not PYTHON.exists():
        pytest.skip(MISSING)
    with Validator() as running:
        yield running


@pytest.fixture
async def world() -> World:
    """Return a deployment that has something of everything."""
    return await make_world()


def test_each_operation_has_a_request() -> None:
    """Each operation that changes something has a request here, or a reason to have none."""
    sent = {(one.method, one.path) for one in CHANGES}
    operations = {(one.method, one.path) for one in _compute() if one.method != "GET"}
    assert operations - sent - set(LEFT_OUT) == set()
    assert sent <= operations


def test_microversions_have_the_same_operations(validator: Validator) -> None:
    """An operation begins and ends with the microversions of Nova."""
    different: list[object] = []
    for one in _compute():
        if (one.method, one.path) in LEFT_OUT or one.path.endswith("/action"):
            continue
        route = validator.routes.get((one.method, _shape(one.path), None))
        if route is None or route.is_removed:
            different.append((one.method, one.path, "Nova does not have it"))
            continue
        nova = route.since, min(route.until, NEWEST)
        if nova != (one.since[1], one.until[1]):
            different.append((one.method, one.path, nova, one.since[1], one.until[1]))
    assert different == [], "\n".join(str(one)[:700] for one in different)


async def ask(world: World, sent: Sent, minor: int) -> Answer:
    """Send a request at a minor version."""
    values = {**world.values}
    if "os-extra_specs" in sent.path:
        values["key"] = "hw:cpu_policy"
    if "/images/" in sent.path:
        values["key"] = "os_distro"
    if sent.prepares is not None:
        values |= await sent.prepares(world)
    if minor < 53 and "old_service_id" in values:
        values["service_id"] = values["old_service_id"]
    if minor < 53 and "os-hypervisors" in sent.path:
        listed = await world.stack.ask("GET", "/v2.1/os-hypervisors", version=f"2.{minor}")
        found = listed.body["hypervisors"][0]
        is_name = sent.path.endswith(("/search", "/servers"))
        values["hypervisor_id"] = found["hypervisor_hostname"] if is_name else str(found["id"])
    if "os-flavor-access" in sent.path:
        values["flavor_id"] = "private"
    body = None if sent.body is None else sent.body(minor)
    path = sent.path.format(**values)
    if "os-simple-tenant-usage" in path:
        path += "?start=2020-01-01T00:00:00" + "&detailed=1" * path.endswith("usage")
    return await world.stack.ask(sent.method, path, body, version=f"2.{minor}", token=sent.token)


async def differences(
    validator: Validator, world: World, requests: Iterable[Sent]
) -> tuple[int, list[object]]:
    """Return the number of responses that were checked, and those that differ from Nova's."""
    items: list[tuple[int, int, object]] = []
    named: list[tuple[str, object]] = []
    different: list[object] = []
    for sent in requests:
        route = validator.routes.get((sent.method, _shape(sent.path), sent.action))
        assert route is not None, sent
        for minor in route.minors():
            answer = await ask(world, sent, minor)
            name = f"{sent.method} {sent.path} {sent.action} {sent.token} 2.{minor}"
            if answer.status != route.status(minor) and not _adds_tag(sent, answer):
                different.append((name, answer.status, route.status(minor), answer.body))
                continue
            items.append((route.number, minor, answer.body))
            named.append((name, answer.body))
    errors = validator.errors(items)
    different += [(*one, error) for one, error in zip(named, errors, strict=True) if error]
    return len(items), different


def _adds_tag(sent: Sent, answer: Answer) -> bool:
    # Nova says 201 or 204 itself, so its table of statuses does not have them.
    return sent.method == "PUT" and "/tags/" in sent.path and answer.status in {201, 204}


async def test_what_is_shown(validator: Validator, world: World) -> None:
    """Nova's schemas accept what the API shows to administrators and to the owner."""
    shown = [one for one in _compute() if one.method == "GET"]
    requests = [
        Sent("GET", one.path, token=token)
        for one in shown
        if ("GET", one.path) not in LEFT_OUT
        for token in ((None, OWNER) if one.role == "member" else (None,))
    ]
    checked, different = await differences(validator, world, requests)
    assert different == [], "\n".join(str(one)[:700] for one in different)
    assert checked > 400


async def test_what_changes_are_answered_with(validator: Validator, world: World) -> None:
    """Nova's schemas accept the responses to requests that change something."""
    checked, different = await differences(validator, world, CHANGES)
    assert different == [], "\n".join(str(one)[:700] for one in different)
    assert checked > 100
