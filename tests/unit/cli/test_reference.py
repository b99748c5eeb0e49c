"""The reference: schemas and documents match the program."""

import json
import re
from functools import cache
from pathlib import Path

import jsonschema
import pytest

from berth.cli.commands.schemas import (
    notification_schema,
    rendered,
    request_schema,
    state_schema,
    write_schemas,
)
from berth.cli.failures import ExitCode
from berth.cli.request_file import read_request
from berth.cli.state_file import read_state
from berth.config.plugins import DRIVERS, FILTERS, WEIGHERS, plugin_names
from berth.config.policy_file import load_policy, parse_policy
from berth.config.settings_reader import _keys, read_settings
from berth.scheduling.plan.inspection import inspect
from berth.scheduling.plan.planning import seed_of
from berth.tables.host.feed import table_of
from tests.unit.cli.command_tree import leaves

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
SCHEMAS = {
    "state.schema.json": state_schema,
    "request.schema.json": request_schema,
    "notification.schema.json": notification_schema,
}


def blocks(document: str, language: str) -> list[str]:
    """Return the code blocks of a language in a document."""
    text = (REFERENCE / document).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    """Return a validator for a schema, which must itself be valid."""
    schema = SCHEMAS[name]()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_schemas_are_up_to_date(name: str) -> None:
    """The schema files equal those that the program generates."""
    assert (REFERENCE / name).read_text("utf-8") == rendered(SCHEMAS[name]())


def test_schemas_are_written_where_asked(tmp_path: Path) -> None:
    """Exactly these files are written."""
    write_schemas(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(SCHEMAS)


def test_the_example_state_is_valid_and_can_be_decided_on(tmp_path: Path) -> None:
    """The example requests of the document are placed on the host that it names."""
    state_text, *request_texts = blocks("state-file.md", "json")
    validator("state.schema.json").validate(json.loads(state_text))
    (tmp_path / "state.json").write_text(state_text)
    state = read_state(tmp_path / "state.json")
    assert len(request_texts) == 2
    for text in request_texts:
        validator("request.schema.json").validate(json.loads(text))
        (tmp_path / "request.json").write_text(text)
        request = read_request(tmp_path / "request.json", state)
        seed = seed_of(request.request_id)
        policy = load_policy(None)
        found = inspect(table_of(state), request, policy, now_s=state.now_s, seed=seed)
        assert found.instances[0].placement is not None
        assert found.instances[0].placement.host == "rack1-a"


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("state.schema.json", {"version": 1}),
        ("state.schema.json", {"version": 1, "now_s": 1, "hots": []}),
        ("state.schema.json", {"version": 1, "now_s": 1, "format": "berth-state/2"}),
        ("state.schema.json", {"version": 1, "now_s": 1, "hosts": [{"uuid": "u", "name": "n"}]}),
        ("request.schema.json", {}),
        ("request.schema.json", {"flavor": {"vcpus": 1}}),
        ("request.schema.json", {"flavor": {"vcpus": -1, "memory_mb": 1}}),
        ("request.schema.json", {"flavor": "f", "count": 0}),
        ("request.schema.json", {"flavor": "f", "retried": [["h"]]}),
        ("request.schema.json", {"flavor": "f", "instance_uuids": []}),
    ],
)
def test_the_schemas_refuse_what_the_program_refuses(name: str, document: object) -> None:
    """The schemas reject invalid documents, so an editor can find the mistakes."""
    assert not validator(name).is_valid(document)


def test_the_example_policy_is_valid() -> None:
    """The example policy of the document can be loaded."""
    (text,) = blocks("policy-file.md", "toml")
    assert parse_policy(text, "policy-file.md").name == "spread-by-memory"


@pytest.mark.parametrize("group", [FILTERS, WEIGHERS, DRIVERS])
def test_every_rule_is_in_the_document(group: str) -> None:
    """Every installed filter, weigher and driver is listed by name."""
    text = (REFERENCE / "policy-file.md").read_text("utf-8")
    assert [name for name in plugin_names(group) if f"| `{name}` |" not in text] == []


def test_every_command_and_option_is_in_the_document() -> None:
    """Every command and every long option is in the document."""
    text = (REFERENCE / "cli.md").read_text("utf-8")
    missing: list[str] = []
    for words, command in leaves():
        path = " ".join(("berth", *words))
        if not re.search(rf"`{path}\b", text):
            missing.append(path)
        options = [one for parameter in command.params for one in parameter.opts]
        missing += [f"{path} {one}" for one in options if one[:2] == "--" and one not in text]
    assert missing == []


def test_every_setting_is_in_the_document() -> None:
    """Every key of the settings is in the document."""
    text = (REFERENCE / "cli.md").read_text("utf-8")
    assert [key for key in _keys() if f"`{key}`" not in text] == []


def test_the_example_settings_are_valid(tmp_path: Path) -> None:
    """The example settings of the document can be read."""
    (toml,) = blocks("cli.md", "toml")
    (tmp_path / "berth.toml").write_text(toml)
    settings = read_settings(tmp_path / "berth.toml", {}, {})
    assert settings.auth.htpasswd == tmp_path / "users"


def test_every_exit_code_is_in_the_document() -> None:
    """Every exit code is in the document, since programs rely on them."""
    text = (REFERENCE / "cli.md").read_text("utf-8")
    assert [code for code in ExitCode if f"\n| {code.value} | " not in text] == []
