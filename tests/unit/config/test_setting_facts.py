"""The facts that the reference gives about each setting, and the page that shows them."""

from pathlib import Path

import pytest

from berth.cli.commands.settings_page import options_of_settings, settings_page
from berth.config.setting_facts import (
    Process,
    SettingFacts,
    facts_of_settings,
    known_overrides,
    sections,
)
from berth.config.settings import Settings
from berth.config.settings_reader import read_settings

FACTS = {one.key: one for one in facts_of_settings()}


def test_every_setting_has_a_text_that_explains_it() -> None:
    """The text below each field is a sentence: it says more than the name."""
    short = [
        one.key for one in FACTS.values() if len(one.meaning) < 15 or not one.meaning.endswith(".")
    ]
    assert short == []


def test_facts_are_about_settings_that_exist() -> None:
    """No fact is left of a setting or a section that was removed or renamed."""
    assert known_overrides() - {*FACTS, *sections()} == set()


@pytest.mark.parametrize(
    ("key", "type_", "default", "bounds"),
    [
        ("api.listen", "`HOST:PORT`", '"127.0.0.1:8774"', ""),
        ("api.connections_max", "integer", "4096", "at least 16, at most 1,000,000"),
        ("auth.mode", "`noauth`, `noauth2`, `http_basic`, `identity`, `keystone`", '"noauth"', ""),
        ("auth.admins", "list of strings", '["admin"]', ""),
        ("auth.token_lifetime_s", "number, s", "3600", "more than 0, at most 86,400"),
        ("agent.memory_mb", "integer, MiB", "131072", "at least 0, at most 9,007,199,254,740,991"),
        ("agent.host", "string", "", "1 to 255 characters"),
        ("metrics.flavors", "list of strings", "[]", "0 to 50 values"),
        ("keystone.admin_roles", "list of strings", '["admin"]', "1 to 255 characters"),
        ("quota.injected_file_content_bytes", "integer", "10240", "at least -1, at most 16,384"),
        ("log.level", "string", '"info"', r"`(debug\|info\|warning\|error)`"),
        ("health.needs_broker", "boolean", "", ""),
        ("ledger.data_dir", "path", '"berth-data"', ""),
    ],
)
def test_types_defaults_and_bounds(key: str, type_: str, default: str, bounds: str) -> None:
    """Types have units, defaults are written as in TOML, and bounds are those of the types."""
    found = FACTS[key]
    assert (found.type, found.default, found.bounds) == (type_, default, bounds)


# A relative path in a file starts at the file's folder, so it is not the default.
@pytest.mark.parametrize(
    "key", [key for key, one in FACTS.items() if one.default and one.type != "path"]
)
def test_a_default_can_be_written_into_the_file(key: str, tmp_path: Path) -> None:
    """The default in the page, given as the setting, changes nothing."""
    section, _, name = key.partition(".")
    file = tmp_path / "berth.toml"
    file.write_text(f"[{section}]\n{name} = {FACTS[key].default}\n")
    assert read_settings(file, {}, {}) == Settings()


def test_a_process_that_has_an_option_reads_its_setting() -> None:
    """No command offers an option that its process ignores."""
    ignored = [
        f"{name} of {command}"
        for key, options in options_of_settings().items()
        for name, commands in options.items()
        for command in commands
        if command not in (*FACTS[key].readers, *_OFFERED.get(name, ()))
    ]
    assert ignored == []


# An agent with access to the ledger, which this version still supports, reads its address.
_OFFERED = {"--data": (Process.AGENT,), "--ledger": (Process.AGENT,)}


def row_of(key: str) -> str:
    """Return the row of a setting in the page."""
    (row,) = (line for line in settings_page().splitlines() if line.startswith(f"| `{key}`"))
    return row


def test_a_row_has_variable_option_readers_and_change() -> None:
    """A row says all ways to set a setting, who reads it, and when a change takes effect."""
    row = row_of("auth.htpasswd")
    for text in (
        "`BERTH_AUTH_HTPASSWD`",
        "`--htpasswd` of up, api, placement",
        "up, api, placement",
        "restart; content within 2 s",
    ):
        assert text in row
    assert "| restart |" in row_of("api.listen")


def test_no_secret_default_is_shown() -> None:
    """Settings whose values may be secret have no default that the page could show."""
    hidden = {"ledger.url", "bus.url", "keystone.password", "attestation.auth_blob"}
    assert {key: FACTS[key].default for key in hidden} == dict.fromkeys(hidden, "") | {
        "attestation.auth_blob": '""'
    }


def test_rows_have_as_many_cells_as_the_head() -> None:
    """No text breaks its row: a bar in a cell is escaped."""
    rows = [line for line in settings_page().splitlines() if line.startswith("|")]
    assert {line.replace(r"\|", "").count("|") for line in rows} == {7}


def test_facts_are_values() -> None:
    """Two readings give equal facts, so the page is the same each time."""
    assert list(facts_of_settings()) == list(FACTS.values())
    assert all(isinstance(one, SettingFacts) for one in FACTS.values())
