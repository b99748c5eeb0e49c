"""`berth import`: reports, exit codes, and the ledger that it writes."""

import json
from pathlib import Path
from typing import Any

import pytest

from berth.adapters.nova.api_reader import NovaApiReader
from berth.adapters.nova.credentials import Credentials
from tests.unit.adapters.nova.openstack import ENDPOINTS, SERVER, OpenStack, server
from tests.unit.cli.conftest import Run

_URLS = ("--compute-url", ENDPOINTS["compute"], "--placement-url", ENDPOINTS["placement"])


@pytest.fixture
def nova(monkeypatch: pytest.MonkeyPatch) -> OpenStack:
    """Let the command read a cloud in memory."""
    cloud = OpenStack()

    def with_credentials(_: Credentials) -> NovaApiReader:
        return cloud.reader()

    monkeypatch.setattr(NovaApiReader, "with_credentials", with_credentials)
    monkeypatch.setenv("OS_AUTH_TYPE", "none")
    return cloud


def counts_of(document: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Return the counts of a report by kind."""
    return {one["kind"]: one for one in document["counts"]}


@pytest.mark.usefixtures("nova")
def test_a_dry_run_writes_nothing(run: Run, tmp_path: Path) -> None:
    """The report has counts and findings, and no file is created."""
    done = run("import", "nova", "--from-api", *_URLS, "--data", tmp_path, "--dry-run", "--json")
    assert done.code == 0
    report = json.loads(done.out)
    assert counts_of(report)["server"]["create"] == 1
    assert counts_of(report)["provider"]["create"] == 2
    assert any("locked" in one["reason"] for one in report["findings"])
    assert list(tmp_path.iterdir()) == []
    text = run("import", "nova", "--from-api", *_URLS, "--data", tmp_path, "--dry-run").out
    assert "nothing is written" in text
    assert "to do: import with --from-db" in text


def test_an_import_is_verified_and_repeated(nova: OpenStack, run: Run, tmp_path: Path) -> None:
    """A second import writes nothing; a change in Nova is found by verify, which exits with 1."""
    words = ("--from-api", *_URLS, "--data", tmp_path, "--json")
    first = json.loads(run("import", "nova", *words).out)
    assert first["written"] == len(first["changes"]) > 0
    assert json.loads(run("import", "nova", *words).out)["written"] == 0
    equal = run("import", "verify", *words)
    assert equal.code == 0
    assert json.loads(equal.out)["differences"] == []
    stopped = server(**{"OS-EXT-STS:vm_state": "stopped"})
    nova.compute["/servers/detail"] = {"servers": [stopped]}
    differs = run("import", "verify", *words)
    assert differs.code == 1
    (found,) = json.loads(differs.out)["differences"]
    assert (found["key"], found["field"]) == (SERVER, "status")
    assert (found["nova"], found["berth"]) == ("SHUTOFF", "ACTIVE")


def test_updates_are_shown_as_a_table(nova: OpenStack, run: Run, tmp_path: Path) -> None:
    """The table shows the value now and the one that the import would write."""
    words = ("--from-api", *_URLS, "--data", tmp_path)
    assert "records written" in run("import", "nova", *words).out
    assert "no differences" in run("import", "verify", *words).out
    nova.compute["/servers/detail"] = {"servers": [server(name="db")]}
    text = run("import", "nova", *words, "--dry-run").out
    assert "web" in text
    assert "db" in text
    assert "1 differences" in run("import", "verify", *words).out


def test_a_source_is_required(run: Run, tmp_path: Path) -> None:
    """The error names the options."""
    done = run("import", "nova", "--data", tmp_path)
    assert done.code == 2
    assert "--from-api" in done.err
