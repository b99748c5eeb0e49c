"""Bad input to a real process, over HTTP and on the command line.

Each input is refused with a 4xx status and a text that names the fault, and nothing is written.
Other tests check with schemathesis that no input causes a server error.
"""

import json
import os
from collections.abc import Iterator
from typing import Any, Final

import httpx
import pytest

from berth.lab.loopback import free_port
from tests.e2e.conftest import Processes, Service
from tests.e2e.outages.cloud import check_audit
from tests.forks import run_berth

_NOBODY: Final = "00000000-0000-4000-8000-00000000dead"
_VERSION: Final = {"OpenStack-API-Version": "compute 2.96", "Content-Type": "application/json"}
_GOOD: Final = {"name": "s", "flavorRef": "small", "networks": "none"}
_SERVERS: Final = "/v2.1/servers"
_IMAGE: Final = "70a599e0-31e7-49b7-b260-868f441e862b"


def _server(hints: object = None, **fields: object) -> dict[str, Any]:
    body: dict[str, Any] = {"server": {**_GOOD, **fields}}
    if hints is not None:
        body["os:scheduler_hints"] = hints
    return body


def _hint(**hints: object) -> dict[str, Any]:
    return _server(hints)


Case = tuple[str, str, object, int, str]
"""Method, path, body, expected status, and a word of the reason; a str is sent unencoded."""

CREATES: Final[dict[str, Case]] = {
    name: ("POST", _SERVERS, body, status, word)
    for name, body, status, word in (
        ("unknown flavor", _server(flavorRef="none"), 400, "none"),
        ("a flavor that is no text", _server(flavorRef=["small"]), 400, "flavorRef"),
        ("unknown image", _server(imageRef=_NOBODY), 400, _NOBODY),
        ("an image that is no uuid", _server(imageRef="not-a-uuid"), 400, "image"),
        ("a small flavor for the image", _server(imageRef=_IMAGE), 400, "memory"),
        ("unknown zone", _server(availability_zone="moon"), 400, "moon"),
        ("unknown host in a zone", _server(availability_zone="nova:moon"), 400, "moon"),
        ("four parts of a zone", _server(availability_zone="a:b:c:d"), 400, "ZONE:HOST"),
        ("unknown host", _server(host="moon"), 400, "moon"),
        ("unknown node", _server(hypervisor_hostname="moon"), 400, "moon"),
        ("networks of a wrong type", _server(networks=7), 400, "networks"),
        ("no name", {"server": {"flavorRef": "small", "networks": "none"}}, 400, "name"),
        ("an empty name", _server(name=""), 400, "name"),
        ("a long name", _server(name="n" * 256), 400, "name"),
        ("control characters", _server(name="a\u0007b\u001b[2J"), 400, "name"),
        ("U+0000", _server(name="a\u0000b"), 400, "U+0000"),
        ("no servers", _server(min_count=0), 400, "min_count"),
        ("less than no servers", _server(min_count=-1, max_count=-1), 400, "min_count"),
        ("giant counts", _server(min_count=10**18, max_count=10**18), 400, "count"),
        ("counts that cross", _server(min_count=3, max_count=2), 400, "min_count"),
        ("a count of a wrong type", _server(min_count="many"), 400, "min_count"),
        ("unknown group", _hint(group=_NOBODY), 400, _NOBODY),
        ("a group that is no uuid", _hint(group="red"), 400, "group"),
        ("a group that is a number", _hint(group=7), 400, "group"),
        ("hints that are a list", _server([1]), 400, "scheduler_hints"),
        ("same_host of a wrong type", _hint(same_host={"a": 1}), 400, "same_host"),
        ("a different_host that is a name", _hint(different_host="red"), 400, "different_host"),
        ("different_host of a wrong type", _hint(different_host=[7]), 400, "scheduler_hints"),
        ("a query of a wrong type", _hint(query=7), 400, "query"),
        ("metadata of a wrong type", _server(metadata={"a": 1}), 400, "metadata"),
        ("nothing", "", 400, "body"),
        ("half an object", '{"server": {', 400, "JSON"),
        ("a list", [], 400, "object"),
        ("another key", {"severs": {}}, 400, "severs"),
        ("no number", '{"server": {"name": "a", "min_count": NaN}}', 400, "JSON"),
        ("deep lists", "[" * 100_000 + "]" * 100_000, 400, "deep"),
        ("deep objects", '{"a":' * 5_000 + "1" + "}" * 5_000, 400, "deep"),
        ("a large body", '{"server": "' + "a" * (2 << 20) + '"}', 413, "1048576"),
    )
}
PATHS: Final[dict[str, Case]] = {
    "unknown server": ("GET", f"{_SERVERS}/{_NOBODY}", None, 404, _NOBODY),
    "a server that is no uuid": ("GET", f"{_SERVERS}/red", None, 404, "red"),
    "an action on nobody": (
        "POST",
        f"{_SERVERS}/{_NOBODY}/action",
        {"os-stop": None},
        404,
        _NOBODY,
    ),
    "a delete of nobody": ("DELETE", f"{_SERVERS}/{_NOBODY}", None, 404, _NOBODY),
    "unknown action": ("POST", f"{_SERVERS}/SERVER/action", {"dance": None}, 400, "dance"),
    "two actions": (
        "POST",
        f"{_SERVERS}/SERVER/action",
        {"os-stop": None, "os-start": None},
        400,
        "length",
    ),
    "a resize to nothing": (
        "POST",
        f"{_SERVERS}/SERVER/action",
        {"resize": {"flavorRef": "none"}},
        400,
        "none",
    ),
    "a resize to a deleted flavor": (
        "POST",
        f"{_SERVERS}/SERVER/action",
        {"resize": {"flavorRef": "deleted"}},
        400,
        "deleted",
    ),
    "a move to an unknown host": (
        "POST",
        f"{_SERVERS}/SERVER/action",
        {"os-migrateLive": {"host": "moon", "block_migration": "auto"}},
        400,
        "moon",
    ),
    "a cold move to an unknown host": (
        "POST",
        f"{_SERVERS}/SERVER/action",
        {"migrate": {"host": "moon"}},
        400,
        "moon",
    ),
    "a rebuild from nothing": (
        "POST",
        f"{_SERVERS}/SERVER/action",
        {"rebuild": {"imageRef": _NOBODY}},
        400,
        _NOBODY,
    ),
    "unknown flavor": ("GET", "/v2.1/flavors/none", None, 404, "none"),
    "a flavor of less than nothing": (
        "POST",
        "/v2.1/flavors",
        {"flavor": {"name": "f", "vcpus": -1, "ram": 1, "disk": 0}},
        400,
        "vcpus",
    ),
    "a giant flavor": (
        "POST",
        "/v2.1/flavors",
        {"flavor": {"name": "f", "vcpus": 10**30, "ram": 1, "disk": 0}},
        400,
        "vcpus",
    ),
    "unknown host": ("GET", "/berth/v1/hosts/moon", None, 404, "moon"),
    "unknown hypervisor": ("GET", f"/v2.1/os-hypervisors/{_NOBODY}", None, 404, _NOBODY),
    "unknown service": (
        "PUT",
        f"/v2.1/os-services/{_NOBODY}",
        {"status": "disabled"},
        404,
        _NOBODY,
    ),
    "unknown aggregate": ("GET", "/v2.1/os-aggregates/77", None, 404, "77"),
    "an aggregate that is no number": ("GET", "/v2.1/os-aggregates/red", None, 404, "red"),
    "a host that is unknown to an aggregate": (
        "POST",
        "/v2.1/os-aggregates/1/action",
        {"add_host": {"host": "moon"}},
        404,
        "moon",
    ),
    "unknown group": ("GET", f"/v2.1/os-server-groups/{_NOBODY}", None, 404, _NOBODY),
    "a group of an unknown policy": (
        "POST",
        "/v2.1/os-server-groups",
        {"server_group": {"name": "g", "policy": "love"}},
        400,
        "policy",
    ),
    "a negative limit": ("GET", f"{_SERVERS}?limit=-1", None, 400, "limit"),
    "an unknown marker": ("GET", f"{_SERVERS}?marker={_NOBODY}", None, 400, "marker"),
    "an unknown decision": ("GET", "/berth/v1/decisions/req-none", None, 404, "req-none"),
    "an unknown route": ("GET", "/v2.1/castles", None, 404, "could not be found"),
}
WORDS: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "unknown server": (("server", "show", "moon"), "moon"),
    "unknown flavor": (("server", "create", "s", "--flavor", "none"), "none"),
    "unknown host": (("host", "show", "moon"), "moon"),
    "unknown service": (("service", "disable", "moon"), "moon"),
    "unknown aggregate": (("aggregate", "show", "moon"), "moon"),
    "unknown zone": (
        ("server", "create", "s", "--flavor", "small", "--az", "moon"),
        "moon",
    ),
    "control characters": (("server", "create", "a\u0007b", "--flavor", "small"), "name"),
    "less than nothing": (("server", "create", "s", "--flavor", "small", "--count", "-1"), "count"),
}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, str]]:
    """Yield a service that writes nothing by itself, and the uuid of a server."""
    folder = tmp_path_factory.mktemp("bad-input")
    images = [{"image_id": _IMAGE, "name": "big", "min_memory_mb": 1 << 20}]
    (folder / "images.json").write_text(json.dumps(images))
    # Also refused requests enter the audit log.
    (folder / "berth.toml").write_text("agent.heartbeat_interval_s = 3600.0\naudit.log = false")
    running = Processes(folder)
    words = ("--config", str(folder / "berth.toml"), "--images", str(folder / "images.json"))
    address = f"127.0.0.1:{free_port()}"
    part = running.start(
        "up", "--listen", address, "--data", str(folder), "--fake-hosts", "2", *words
    )
    service = Service(f"http://{address}")
    try:
        service.wait_until(lambda status: status["hosts"]["total"] == 2, part)
        for name in ("small", "deleted"):
            service.flavor(name, vcpus=1, ram=512)
        httpx.delete(f"{service.url}/v2.1/flavors/deleted", trust_env=False).raise_for_status()
        service.flavor("giant", vcpus=10_000, ram=512)
        service.post("/v2.1/os-aggregates", {"aggregate": {"name": "a"}})
        uuid = service.create("small", "there")
        service.wait_for_status(uuid, "ACTIVE")
        yield service, uuid
        check_audit(service)
    finally:
        running.stop_all()


def _version(service: Service) -> int:
    version: int = service.get("/berth/v1/audit")["version"]
    return version


@pytest.mark.parametrize("case", {**CREATES, **PATHS}.values(), ids={**CREATES, **PATHS}.keys())
def test_it_is_refused_by_name(cloud: tuple[Service, str], case: Case) -> None:
    """The answer has the expected status and names the fault, and nothing is written."""
    service, uuid = cloud
    method, path, body, status, word = case
    before = _version(service)
    content = body if isinstance(body, str) else None if body is None else json.dumps(body)
    answer = httpx.request(
        method,
        service.url + path.replace("SERVER", uuid),
        content=content,
        headers=_VERSION,
        trust_env=False,
        timeout=60.0,
    )
    assert (answer.status_code, word in answer.text) == (status, True), answer.text[:500]
    assert len(answer.text) < 2_000
    assert _version(service) == before


def test_a_flavor_beyond_every_host_is_refused_with_the_reason(
    cloud: tuple[Service, str],
) -> None:
    """The server goes to ERROR, and its fault names the resource class."""
    service, _ = cloud
    uuid = service.create("giant", "giant")
    message = service.wait_for_status(uuid, "ERROR")["fault"]["message"]
    assert "VCPU" in message
    httpx.delete(f"{service.url}/v2.1/servers/{uuid}", trust_env=False).raise_for_status()


def test_a_disabled_host_is_refused_with_the_reason(cloud: tuple[Service, str]) -> None:
    """A server for a disabled host goes to ERROR with the reason."""
    service, _ = cloud
    name = service.get("/berth/v1/hosts")["hosts"][0]["name"]
    services = f"{service.url}/v2.1/os-services"
    asked = httpx.get(services, params={"host": name}, headers=_VERSION, trust_env=False)
    path = f"{services}/{asked.raise_for_status().json()['services'][0]['id']}"

    def turn(status: str) -> None:
        answer = httpx.put(path, json={"status": status}, headers=_VERSION, trust_env=False)
        answer.raise_for_status()

    turn("disabled")
    server = {**_GOOD, "host": name}
    uuid = service.post(_SERVERS, {"server": server})["server"]["id"]
    fault = service.wait_for_status(uuid, "ERROR")["fault"]["message"]
    turn("enabled")
    assert "ComputeFilter" in fault
    request_id = service.get(f"/berth/v1/instances/{uuid}")["request_id"]
    assert "disabled" in json.dumps(service.get(f"/berth/v1/decisions/{request_id}"))
    httpx.delete(f"{service.url}/v2.1/servers/{uuid}", trust_env=False).raise_for_status()


@pytest.mark.parametrize(("words", "word"), WORDS.values(), ids=WORDS.keys())
def test_the_command_line_says_it_as_clearly(
    cloud: tuple[Service, str], words: tuple[str, ...], word: str
) -> None:
    """The command fails, names the fault without a traceback, and nothing is written."""
    service, _ = cloud
    before = _version(service)
    done = run_berth(*words, environment={**os.environ, "BERTH_URL": service.url})
    assert done.returncode != 0
    assert word in done.stderr
    assert "Traceback" not in done.stderr
    assert _version(service) == before
