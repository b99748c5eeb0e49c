"""A child's secrets reach neither the wire nor a parent's logs, metrics and ledger."""

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, Final

import httpx
import pytest

from berth.adapters.virt.fake import FakeHost
from berth.lab.zone_process import ZoneProcess, ZoneSpec
from berth.lab.zone_tree import ZoneTree, made_tree
from tests.e2e.zones.faulty_tree import launch_fork
from tests.integration.zone_leaks.canaries import Canaries, leaks_in, planted
from tests.relay import relaying

HOSTS: Final = 12
REQUESTS: Final = 150
WITHIN_S: Final = 60.0
ROOT = Canaries("root", 0, {"MEMORY_MB": 9_276_371})
WEST = Canaries("west", 0, {"MEMORY_MB": 7_368_787})
FLAVORS: Final = {"small": 512, "half": 4_000_000, "huge": 20_000_003}


def hosts_of(secret: Canaries, *, failing: int) -> list[FakeHost]:
    """Return the hosts of a zone, of which the first `failing` fail to build."""
    return [
        FakeHost(
            name=secret.host_name(index),
            totals={"VCPU": 64, "MEMORY_MB": secret.totals["MEMORY_MB"], "DISK_GB": 2_000},
            host_ip=secret.address(index),
            fails=index < failing,
        )
        for index in range(HOSTS)
    ]


@pytest.fixture
def spec() -> ZoneSpec:
    """Return a small root above a zone on whose hosts half of the builds fail."""
    west = ZoneSpec("west", hosts_of(WEST, failing=HOSTS // 2))
    return ZoneSpec("root", hosts_of(ROOT, failing=0)[:1], (west,))


@pytest.mark.timeout(240)
def test_a_parent_is_told_nothing_that_it_could_keep(spec: ZoneSpec, tmp_path: Path) -> None:
    """A child's names, addresses, uuids and amounts appear nowhere in what a parent receives."""
    with made_tree(spec, tmp_path / "tree", launch_fork) as tree:
        root, west = tree.root, tree["west"]
        tree.start()
        with relaying(west.url, 0) as relay:
            relay.proxy.kept = bytearray()
            root.adopt(west, api_url=relay.url(west.url))
            tree.wait_until_active()
            uuids = use(root, Random(4))
            assert len(uuids) > REQUESTS // 4
            told = bytes(relay.proxy.kept)
        secret_uuids = [host["uuid"].encode() for host in ask(west, "/berth/v1/hosts")["hosts"]]
        places = dict(places_of(tree, root, told))
        files = b"".join(files_of(root))
        control = b"".join(files_of(west)) + west.log.read_bytes()
    # The child's own files contain the secrets, so the search would have found them.
    assert leaks_in(control, [WEST])
    assert all(uuid in control for uuid in secret_uuids)
    # Freed space of the ledger's files has parts of numbers, so these are searched for in its rows
    # only.
    assert leaks_in(ROOT.hidden(files)) == []
    for name, data in places.items():
        shown = ROOT.hidden(data)
        assert leaks_in(shown, [WEST]) == [], name
        assert not [uuid for uuid in secret_uuids if uuid in data], name
        for what, leak in planted(WEST):
            assert leaks_in(shown[-10_000:] + b"\n" + leak + b"\n", [WEST]), (name, what)


def places_of(tree: ZoneTree, root: ZoneProcess, told: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of everything that a parent received, shows or stores."""
    assert b"/zones/select" in told
    yield "the wire", told
    with root.client() as http:
        for path in ("/metrics", "/zones/detail", "/berth/v1/state", "/berth/v1/decisions"):
            answer = http.get(path)
            assert answer.status_code == 200, (path, answer.text)
            yield path, answer.content
    tree.stop()
    log = root.log.read_bytes()
    assert log
    yield "the log", log
    rows = b"\n".join(rows_of(root))
    assert b"west" in rows
    yield "the ledger", rows


def files_of(zone: ZoneProcess) -> Iterator[bytes]:
    """Yield the contents of the files of a zone's ledger."""
    for file in sorted((zone.folder / "data").rglob("*")):
        if file.is_file():
            yield file.read_bytes()


def rows_of(zone: ZoneProcess) -> Iterator[bytes]:
    """Yield the values of all rows of a zone's ledger."""
    file = zone.folder / "data" / "berth.sqlite"
    assert file.exists()
    with closing(sqlite3.connect(file)) as ledger:
        tables = ledger.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        for (table,) in tables:
            for row in ledger.execute(f'SELECT * FROM "{table}"'):  # noqa: S608 - a name from the schema
                yield from (one if isinstance(one, bytes) else str(one).encode() for one in row)


def ask(zone: ZoneProcess, path: str) -> Any:  # noqa: ANN401 - JSON, of any shape
    """Return the JSON document that a zone gives its operator at a path."""
    with zone.client() as http:
        return http.get(path).raise_for_status().json()


def use(root: ZoneProcess, random: Random) -> list[str]:
    """Send random requests to a tree, as a tenant does; return the uuids of the servers."""
    with root.client() as http:
        for name, memory_mb in FLAVORS.items():
            flavor = {"id": name, "name": name, "vcpus": 1, "ram": memory_mb, "disk": 1}
            http.post("/v2.1/flavors", json={"flavor": flavor}).raise_for_status()
    uuids: list[str] = []
    with root.client(root.tenant) as http:
        for _ in range(REQUESTS):
            if not uuids or random.random() < 0.4:
                uuids += made(http, random)
            else:
                about(http, random, random.choice(uuids))
        wait_for_all(http)
        for uuid in uuids:
            http.get(f"/v2.1/servers/{uuid}")
    return uuids


def made(http: httpx.Client, random: Random) -> list[str]:
    """Create random servers; return their uuids, or none if the flavor does not exist."""
    server: dict[str, Any] = {"name": "vm", "networks": "none"}
    server["flavorRef"] = random.choice(("small", "half", "half", "huge", "none"))
    server["num_instances"] = random.choice((1, 2, 3))
    hints = random.choice(({}, {}, {"force_hosts": ["a"]}, {"build_near_host_ip": ["10.0.0.1"]}))
    answer = http.post("/zones/servers", json={"server": server, "os:scheduler_hints": hints})
    if answer.status_code != 202:
        assert server["flavorRef"] == "none", answer.text
        return []
    key = answer.json()["reservation_id"]
    found = http.get(f"/v2.1/servers?reservation_id={key}").raise_for_status().json()["servers"]
    return [one["id"] for one in found]


def about(http: httpx.Client, random: Random, uuid: str) -> None:
    """Read a server and send it a random action, which may fail."""
    path = f"/v2.1/servers/{uuid}"
    action: dict[str, Any] = random.choice(
        (
            {"os-getConsoleOutput": {}},
            {"resize": {"flavorRef": "huge"}},
            {"rebuild": {"imageRef": "11111111-2222-4333-8444-555555555555"}},
            {"reboot": {"type": "HARD"}},
            {"rescue": {}},
            {"unrescue": None},
            {"os-stop": None},
            {"migrate": None},
        )
    )
    below = random.choice(("", "", "/os-instance-actions", "/metadata", "/migrations"))
    answer = http.get(path + below)
    if below == "/os-instance-actions" and answer.status_code == 200:
        for one in answer.json()["instanceActions"]:
            http.get(f"{path}{below}/{one['request_id']}")
    http.post(f"{path}/action", content=json.dumps(action))
    if random.random() < 0.1:
        http.delete(path)


def wait_for_all(http: httpx.Client) -> None:
    """Wait until no server has the status BUILD."""
    deadline_s = time.monotonic() + WITHIN_S
    while True:
        servers = http.get("/v2.1/servers/detail").raise_for_status().json()["servers"]
        if all(one["status"] != "BUILD" for one in servers):
            return
        assert time.monotonic() < deadline_s, servers
        time.sleep(0.1)
