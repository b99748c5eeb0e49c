"""The reference: schemas and documents match the program."""

import json
import re
from functools import cache
from pathlib import Path

import click
import jsonschema
import pytest

from berth.cli.commands.commands_page import command_contexts
from berth.cli.commands.reference_files import reference_files, write_reference
from berth.cli.commands.schemas import notification_schema, request_schema, state_schema
from berth.cli.failures import ExitCode
from berth.cli.request_file import read_request
from berth.cli.state_file import read_state
from berth.config.plugins import DRIVERS, FILTERS, WEIGHERS, plugin_names
from berth.config.policy_file import load_policy, parse_policy
from berth.config.settings_reader import _keys, read_settings
from berth.scheduling.plan.inspection import inspect
from berth.scheduling.plan.planning import seed_of
from berth.tables.host.feed import table_of

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
SCHEMAS = {
    "state.schema.json": state_schema,
    "request.schema.json": request_schema,
    "notification.schema.json": notification_schema,
}
GENERATED = dict(reference_files())


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


@pytest.mark.parametrize("name", GENERATED)
def test_the_generated_files_are_up_to_date(name: str) -> None:
    """The generated files equal what the program generates; `make reference` writes them."""
    assert (REFERENCE / name).read_text("utf-8") == GENERATED[name], "run make reference"


def test_files_are_written_where_asked(tmp_path: Path) -> None:
    """Exactly these files are written, with their texts."""
    write_reference(tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == GENERATED


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


def long_options(command: click.Command) -> set[str]:
    """Return the options of a command that have two hyphens."""
    parameters = command.params
    opts = [name for one in parameters for name in (*one.opts, *one.secondary_opts)]
    return {one for one in opts if one.startswith("--")}


CONTEXTS = {context.command_path: context for context in command_contexts()}
ALL_OPTIONS = {"--debug", "--help", "--version"}.union(
    *(long_options(context.command) for context in CONTEXTS.values())
)


def test_every_command_and_option_is_in_the_document() -> None:
    """Every command is in the document, and every option there or, if it is a setting, there."""
    text = (REFERENCE / "cli.md").read_text("utf-8")
    settings = GENERATED["settings.md"]
    missing: list[str] = []
    for path, context in CONTEXTS.items():
        if not re.search(rf"`{path}\b", text):
            missing.append(path)
        missing += [
            f"{path} {one}"
            for one in long_options(context.command)
            if one not in text and f"`{one}` of" not in settings
        ]
    assert missing == []


def commands_in(text: str) -> list[str]:
    """Return the longest command path that each code span `berth …` names, or the span itself."""
    found: list[str] = []
    for span in re.findall(r"`(berth [a-z][^`]*)`", text):
        words = span.split()
        paths = (" ".join(words[:end]) for end in range(len(words), 1, -1))
        found.append(next((path for path in paths if path in CONTEXTS or path in GROUPS), span))
    return found


GROUPS = {path.rpartition(" ")[0] for path in CONTEXTS} - {"berth"}


def test_every_command_and_option_in_the_document_exists() -> None:
    """The document names no command that is gone, and no option that its commands do not have."""
    wrong: list[str] = []
    for line in (REFERENCE / "cli.md").read_text("utf-8").splitlines():
        named = commands_in(line)
        wrong += [path for path in named if path not in CONTEXTS and path not in GROUPS]
        leaves = [path for path in named if path in CONTEXTS]
        known = set().union(*(long_options(CONTEXTS[path].command) for path in leaves))
        known = known | {"--help", "--debug"} if leaves else ALL_OPTIONS
        wrong += [
            f"{named} {one}" for one in re.findall(r"--[a-z][a-z-]+", line) if one not in known
        ]
    assert wrong == []


@pytest.mark.parametrize(
    ("path", "texts"),
    [
        ("berth server create", ["NAME [OPTIONS]", "`--flavor` `TEXT`", "Required.", "connection"]),
        ("berth up", ["`--fake-hosts` `N`", "`noauth`, `noauth2`", "TOML file with settings."]),
        ("berth server backup", ["`--rotation` `N`, at least 0", "`daily`"]),
    ],
)
def test_a_section_of_the_generated_page(path: str, texts: list[str]) -> None:
    """The section of a command has its usage, and its options with values, defaults and help."""
    page = GENERATED["commands.md"]
    (section,) = (one for one in page.split("\n## ") if one.startswith(f"{path}\n"))
    assert [text for text in texts if text not in section] == []


def test_options_of_the_connection_are_described_once() -> None:
    """The page has the connection's options in one table, and not in those of 60 commands."""
    page = GENERATED["commands.md"]
    assert {name: page.count(f"| `{name}` ") for name in ("--token", "--ca-file")} == {
        "--token": 2,  # that of a host, for its enrolment, is another
        "--ca-file": 1,
    }


def test_rows_of_the_generated_page_have_four_cells() -> None:
    """No help text or placeholder breaks its row."""
    rows = [line for line in GENERATED["commands.md"].splitlines() if line.startswith("|")]
    assert {line.replace(r"\|", "").count("|") for line in rows} == {5}


def test_every_setting_is_in_the_document() -> None:
    """Every key of the settings is in the document."""
    text = GENERATED["settings.md"]
    assert [key for key in _keys() if f"`{key}`" not in text] == []


def test_the_example_settings_are_valid(tmp_path: Path) -> None:
    """The example settings of the document can be read."""
    (toml,) = blocks("settings.md", "toml")
    (tmp_path / "berth.toml").write_text(toml)
    settings = read_settings(tmp_path / "berth.toml", {}, {})
    assert settings.auth.htpasswd == tmp_path / "users"


def test_every_exit_code_is_in_the_document() -> None:
    """Every exit code is in the document, since programs rely on them."""
    text = (REFERENCE / "cli.md").read_text("utf-8")
    assert [code for code in ExitCode if f"\n| {code.value} | " not in text] == []
