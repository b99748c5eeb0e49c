"""`berth import` from a real Nova and a real Placement, through their APIs and their databases."""

import json
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from berth.adapters.nova.nova_tables import opened
from berth.domain.errors import InvalidInputError
from tests.e2e.nova.content import fill
from tests.e2e.nova.rig import Cloud, running_cloud, skip_without_peers
from tests.forks import run_berth

# Nova takes its time to start where other tests use the processors.
pytestmark = pytest.mark.timeout(400)

_SERVERS = 14
# What only one of the two sources can tell.
_ONLY_IN_API = {("quota", "class:default")}


@pytest.fixture(scope="module")
def cloud(
    new_database: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> Generator[Cloud]:
    """Run a Nova with random content for the tests of this file."""
    skip_without_peers()
    urls = {name: new_database() for name in ("api", "cell0", "cell1", "placement")}
    with running_cloud(urls, tmp_path_factory.mktemp("nova")) as found:
        fill(found, Random(17), servers=_SERVERS)
        yield found


def berth(*words: str, code: int = 0) -> dict[str, Any]:
    """Run `berth import WORDS… --json`, and return the document that it prints."""
    done = run_berth("import", *words, "--json", environment=_environment())
    assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _environment() -> Mapping[str, str]:
    """Return an environment in which the token of Nova's administrator is used."""
    return {"OS_AUTH_TYPE": "none", "PATH": "/usr/bin:/bin"}


def differing(found: dict[str, Any]) -> set[tuple[str, str]]:
    """Return kind and key of all differences."""
    return {(one["kind"], one["key"]) for one in found["differences"]}


def test_a_nova_is_imported_and_kept_up_to_date(cloud: Cloud, tmp_path: Path) -> None:
    """Both sources give the same records; a second import writes nothing; changes are followed."""
    api, databases = cloud.api_words, cloud.database_words
    ledger = ["--data", str(tmp_path / "ledger")]
    planned = berth("nova", *api, *ledger, "--dry-run")
    assert not (tmp_path / "ledger").exists()
    counts = {one["kind"]: one["in_nova"] for one in planned["counts"]}
    assert (counts["server"], counts["host"], counts["flavor"]) == (_SERVERS, 3, 3)
    # Each fake host has a nested provider with a custom resource class.
    assert (counts["provider"], counts["resource class"]) == (6, 1)
    assert counts["allocations"] >= _SERVERS - 3
    assert berth("nova", *api, *ledger)["refused"] == []
    assert berth("verify", *api, *ledger)["differences"] == []
    assert berth("nova", *api, *ledger)["written"] == 0

    # The databases also tell what guests each host can run, and who locked a server.
    told = berth("nova", *databases, *ledger)
    assert {one["kind"] for one in told["changes"]} <= {"host", "server", "key pairs"}
    assert berth("verify", *databases, *ledger)["differences"] == []
    assert berth("verify", *api, *ledger)["differences"] == []

    gone, renamed, *_ = [one for one in cloud.settle() if one["status"] == "ACTIVE"]
    cloud.call("DELETE", f"/servers/{gone['id']}")
    cloud.call("PUT", f"/servers/{renamed['id']}", {"server": {"name": "renamed"}})
    while any(one["id"] == gone["id"] for one in cloud.settle()):
        pass
    found = differing(berth("verify", *api, *ledger, code=1))
    assert {("server", gone["id"]), ("server", renamed["id"])} <= found
    assert berth("nova", *databases, *ledger, "--prune")["refused"] == []
    assert berth("verify", *api, *ledger)["differences"] == []


def test_an_import_from_the_databases_alone_is_complete(cloud: Cloud, tmp_path: Path) -> None:
    """Only the defaults of the quotas, which are in nova.conf, are missing."""
    ledger = ["--data", str(tmp_path / "ledger")]
    assert berth("nova", *cloud.database_words, *ledger)["refused"] == []
    assert berth("verify", *cloud.database_words, *ledger)["differences"] == []
    found = differing(berth("verify", *cloud.api_words, *ledger, code=1))
    assert found == _ONLY_IN_API


async def test_the_databases_refuse_writes(cloud: Cloud) -> None:
    """The transaction is read-only, so the database itself refuses every change."""
    with pytest.raises(InvalidInputError, match="read-only"):
        async with opened(cloud.databases["api"]) as tables:
            await tables.rows("DELETE FROM flavors")
