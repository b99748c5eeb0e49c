"""Compatibility between neighbouring versions: records, messages and ledgers."""

import ast
import base64
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from alembic.config import Config
from alembic.script import Script, ScriptDirectory

from berth.adapters.bus.message_codec import MessageCodec
from berth.adapters.ledger import SCHEMA, Schema, migrate, open_ledger, schema_of
from berth.adapters.ledger.engine.codec import decode_event, encode_event
from berth.domain.compute.decision import Decision
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.errors import LedgerError
from berth.domain.ledger.change import HostsAlive
from berth.services.requests.orders import PLACE_BEFORE
from berth.services.servers.consoles import CONSOLE
from berth.testing.builders import make_decision, make_fleet, make_instance
from berth.testing.ledger_conformance.fixtures import commit

_BEFORE: dict[str, Any] = json.loads(Path(__file__).with_name("said_before.json").read_text())
_COMMANDS = {f"{one.topic}.{one.name}": one for one in (PLACE_BEFORE, CONSOLE)}
_NOTHING = HostsAlive((), 0.0)
_ONLY_ADDS = {"create_table", "create_index", "add_column", "f", "get_context"}
_LAST_OF_BEFORE = "0004"
"""Migrations after this one declare the oldest revision whose Berth can read the schema."""


def holds_all(found: object, said: object) -> bool:
    """Tell whether a JSON document has all values of another one, and perhaps more fields."""
    if isinstance(said, dict) and isinstance(found, dict):
        return all(key in found and holds_all(found[key], said[key]) for key in said)
    if isinstance(said, list) and isinstance(found, list):
        return len(found) == len(said) and all(map(holds_all, found, said))
    return found == said


@pytest.mark.parametrize(("kind", "body"), _BEFORE["events"], ids=lambda one: str(one)[:20])
def test_what_the_version_before_has_written_is_read_whole(kind: str, body: dict[str, Any]) -> None:
    """A record of the previous version loses no field when it is decoded and encoded."""
    event = decode_event(kind, json.dumps(body))
    assert holds_all(json.loads(encode_event(event)), body)


@pytest.mark.parametrize(("name", "letter"), _BEFORE["letters"])
def test_commands_of_the_version_before_are_understood(name: str, letter: str) -> None:
    """A command of the previous version is decoded with its context and all arguments."""
    wire = MessageCodec(1_000_000)
    read = wire.read_command(base64.b64decode(letter))
    assert (read.context.request_id, read.context.deadline_s) == ("req-1", 1000.0)
    args = wire.read_args(_COMMANDS[name].args, read)
    said = msgspec.msgpack.decode(read.args)
    assert holds_all(msgspec.msgpack.decode(msgspec.msgpack.encode(args)), said)


def test_answers_of_the_version_before_are_understood() -> None:
    """A reply of the previous version is decoded to the decision that it held."""
    answer = MessageCodec(1_000_000).read_reply(Decision, base64.b64decode(_BEFORE["answer"]))
    assert answer == make_decision(1)


def test_fields_of_a_newer_version_are_left_out() -> None:
    """Unknown fields of a record and of its parts are ignored."""
    body = json.loads(encode_event(make_instance(1)))
    body["colour"] = "blue"
    body["flavor"]["taste"] = ["sweet", 1]
    assert decode_event("instance", json.dumps(body)) == make_instance(1)


def test_records_of_a_kind_that_only_a_newer_version_keeps_are_passed_over() -> None:
    """Records of unknown kinds are decoded as an empty event; damaged ones raise LedgerError."""
    assert decode_event("teapot", '{"uuid": "t-1"}') == _NOTHING
    assert decode_event("gone", '{"kind": "teapot", "key": "t-1"}') == _NOTHING
    for kind, body in (("gone", '{"kind": "host"}'), ("gone", "{"), ("host", "{}")):
        with pytest.raises(LedgerError):
            decode_event(kind, body)


def test_names_that_only_a_newer_version_knows_are_kept() -> None:
    """An unknown status or task of an instance is read and is written back unchanged."""
    body = json.loads(encode_event(make_instance(1)))
    body |= {"status": "HIBERNATED", "task": "hibernating"}
    instance = decode_event("instance", json.dumps(body))
    assert isinstance(instance, Instance)
    assert instance.status not in set(Status)
    assert instance.task not in set(Task)
    assert json.loads(encode_event(instance)) == body


def test_a_command_may_have_more_at_its_end() -> None:
    """A command with further elements at its end is decoded."""
    wire = MessageCodec(1_000_000)
    letter = msgspec.msgpack.decode(base64.b64decode(_BEFORE["letters"][0][1]))
    read = wire.read_command(msgspec.msgpack.encode([*letter, b"id", 1.0, "more"]))
    assert read.context.request_id == "req-1"


def revisions() -> list[Script]:
    """Return all migrations, the newest first."""
    config = Config()
    config.set_main_option("script_location", "berth.adapters.ledger:migrations")
    return list(ScriptDirectory.from_config(config).walk_revisions())


@pytest.mark.parametrize("script", revisions(), ids=lambda script: script.revision)
def test_a_migration_says_who_can_work_with_what_it_makes(script: Script) -> None:
    """A migration declares `readable_by`; if older versions can read it, it only adds."""
    assert script.revision == f"{int(script.revision):04}"
    if script.revision <= _LAST_OF_BEFORE:
        return
    assert "readable_by" in vars(script.module), "see docs/adr/0023-versions-side-by-side.md"
    if script.module.readable_by == script.revision:
        return
    assert script.module.readable_by in {one.revision for one in revisions()}
    for call in ast.walk(ast.parse(Path(script.path).read_text("utf-8"))):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        if isinstance(call.func.value, ast.Name) and call.func.value.id == "op":
            assert call.func.attr in _ONLY_ADDS
            if call.func.attr == "add_column":
                text = ast.unparse(call)
                assert "nullable=True" in text or "server_default" in text


_SET_REVISION = "UPDATE schema_revision SET version_num = ?"
_SET_READABLE_BY = "UPDATE alembic_version SET version_num = ?"


def rewrite(path: Path, statement: str, revision: str) -> None:
    """Write another revision to a ledger file."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement, (revision,))


async def test_a_newer_ledger_that_serves_is_opened_and_left_as_it_is(tmp_path: Path) -> None:
    """A newer ledger that this version can read is opened, and its schema is not changed."""
    path = tmp_path / "ledger.db"
    url = f"sqlite:///{path}"
    await migrate(url)
    rewrite(path, _SET_REVISION, "9998")
    found = await schema_of(url)
    assert found is not None
    assert found.revision == "9998"
    ledger = await open_ledger(url)
    try:
        for unit in make_fleet(1):
            await commit(ledger, unit)
    finally:
        await ledger.close()
    assert await schema_of(url) == found


async def test_a_ledger_that_is_too_new_is_refused(tmp_path: Path) -> None:
    """Opening or upgrading a ledger that is too new raises an error with both revisions."""
    path = tmp_path / "ledger.db"
    url = f"sqlite:///{path}"
    await migrate(url)
    rewrite(path, _SET_REVISION, "9999")
    rewrite(path, _SET_READABLE_BY, "9998")
    for attempt in (open_ledger, migrate):
        with pytest.raises(
            LedgerError, match=f"'9998' or newer, but this Berth has schema '{SCHEMA}'"
        ):
            await attempt(url)


async def test_a_new_ledger_says_who_can_work_with_it(tmp_path: Path) -> None:
    """A new ledger has the newest revision, and the oldest that can read all migrations."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    assert await schema_of(url) is None
    await migrate(url)
    oldest = max(getattr(one.module, "readable_by", one.revision) for one in revisions())
    assert await schema_of(url) == Schema(SCHEMA, oldest)


async def test_a_ledger_of_before_gets_both_numbers(tmp_path: Path) -> None:
    """A ledger with one revision number is upgraded to the two numbers of a new ledger."""
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as connection:
        dump = Path(__file__).with_name("ledger_0003.sql").read_text("utf-8")
        connection.executescript(dump)
    old, new = f"sqlite:///{path}", f"sqlite:///{tmp_path / 'new.db'}"
    assert await schema_of(old) == Schema("0003", "0003")
    await migrate(old)
    await migrate(new)
    assert await schema_of(old) == await schema_of(new)
