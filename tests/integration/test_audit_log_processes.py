"""The audit log of real processes, and what `berth audit-log verify` detects in the database."""

import asyncio
import json
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from berth.cli.main import main
from berth.lab.loopback import free_port
from tests.integration.test_observed_processes import berth, get, until

Json = dict[str, Any]
_FLAVORS = 40
_CONFLICT = 409
_MADE = 200
_MANIPULATIONS = {
    "its content does not have its hash": """
        UPDATE audit_blocks SET body = replace(body, 'api@', 'apx@')
        WHERE key = (SELECT key FROM audit_blocks ORDER BY key LIMIT 1 OFFSET 1)""",
    "before it are missing": """
        DELETE FROM audit_blocks
        WHERE key = (SELECT key FROM audit_blocks ORDER BY key LIMIT 1 OFFSET 1)""",
    "no later entry records": """
        DELETE FROM audit_blocks WHERE key = (SELECT min(key) FROM audit_blocks)""",
    "it was inserted or moved": """
        INSERT INTO audit_blocks SELECT key || '0', body FROM copied
        WHERE key = (SELECT key FROM copied ORDER BY key LIMIT 1 OFFSET 1)""",
    "its end was cut off": """
        DELETE FROM audit_blocks WHERE key = (SELECT max(key) FROM audit_blocks)""",
}


def create_flavors(bases: list[str]) -> None:
    """Create flavors through several APIs at the same time."""

    def create(number: int) -> None:
        name = f"f-{number}"
        flavor = {"id": name, "name": name, "vcpus": 1, "ram": 512, "disk": 1}
        url = f"{bases[number % len(bases)]}/v2.1/flavors"
        answer = httpx.post(url, json={"flavor": flavor}, trust_env=False, timeout=60)
        # Creates that collide are refused, and repeated by their client.
        while answer.status_code == _CONFLICT:
            answer = httpx.post(url, json={"flavor": flavor}, trust_env=False, timeout=60)
        assert answer.is_success, answer.text

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(create, range(_FLAVORS)))


class Commands:
    """Runs `berth audit-log` against an API."""

    def __init__(self, base: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._base = base
        self._capsys = capsys

    def run(self, *words: str) -> tuple[int, Json]:
        """Return the exit code and the JSON of a command."""
        self._capsys.readouterr()
        code = main(["audit-log", *words, "--json", "--url", self._base])
        document: Json = json.loads(self._capsys.readouterr().out)
        return code, document

    def created(self) -> list[str]:
        """Return the ids of the created flavors in the log."""
        _, found = self.run("list", "--operation", "POST /v2.1/flavors", "--limit", "1000")
        made = (one["targets"]["created"] for one in found["entries"] if one["status"] == _MADE)
        return sorted(made)


def check_detection(commands: Commands, execute: Callable[[str], None]) -> None:
    """Check that each manipulation of the table is detected, and nothing before."""
    code, whole = commands.run("verify")
    assert (code, whole["faults"]) == (0, [])
    head = f"{whole['head']['number']}:{whole['head']['hash']}"
    assert commands.run("verify", "--head", head)[0] == 0
    execute("CREATE TABLE copied AS SELECT * FROM audit_blocks")
    for reason, statement in _MANIPULATIONS.items():
        execute(statement)
        code, found = commands.run("verify", "--head", head)
        assert code == 1
        assert any(reason in one["reason"] for one in found["faults"]), (reason, found)
        execute("DELETE FROM audit_blocks")
        execute("INSERT INTO audit_blocks SELECT * FROM copied")
        assert commands.run("verify", "--head", head)[0] == 0


@pytest.mark.postgres
def test_several_apis_write_one_chain(
    tmp_path: Path, fresh_postgres_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two APIs on PostgreSQL append all changes to one chain; manipulations are detected."""
    ports = [free_port(), free_port()]
    bases = [f"http://127.0.0.1:{port}" for port in ports]

    def execute(statement: str) -> None:
        async def run() -> None:
            connection = await asyncpg.connect(fresh_postgres_url)
            try:
                await connection.execute(statement)
            finally:
                await connection.close()

        asyncio.run(run())

    with ExitStack() as stack:
        for number, port in enumerate(ports):
            folder = tmp_path / str(number)
            folder.mkdir()
            listen = ("--listen", f"127.0.0.1:{port}")
            words = ("api", *listen, "--ledger", fresh_postgres_url)
            stack.enter_context(berth(folder, *words))
        for base in bases:
            until(lambda base=base: get(f"{base}/readyz").status_code == 200)  # type: ignore[misc]
        create_flavors(bases)
        commands = Commands(bases[0], capsys)
        wanted = sorted(f"f-{number}" for number in range(_FLAVORS))
        until(lambda: commands.created() == wanted)
        try:
            check_detection(commands, execute)
        finally:
            execute("DROP TABLE IF EXISTS copied")


def test_entries_survive_the_end_of_a_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A process that stops saves its last entries; the next one continues the chain."""
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    words = ("api", "--listen", f"127.0.0.1:{port}")
    with berth(tmp_path, *words):
        until(lambda: get(f"{base}/readyz").status_code == 200)
        create_flavors([base])
    with berth(tmp_path, *words):
        until(lambda: get(f"{base}/readyz").status_code == 200)
        commands = Commands(base, capsys)
        assert len(commands.created()) == _FLAVORS
        starts = commands.run("list", "--operation", "process_started")[1]["entries"]
        until(lambda: len(commands.run("list", "--operation", "process_st")[1]["entries"]) == 2)
        assert starts[-1]["details"]["api.listen"] == f"127.0.0.1:{port}"

        def execute(statement: str) -> None:
            database = sqlite3.connect(tmp_path / "berth-data" / "berth.sqlite", timeout=30)
            with database:
                database.execute(statement)
            database.close()

        check_detection(commands, execute)
