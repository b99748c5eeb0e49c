"""`berth config`."""

import json
from pathlib import Path

import pytest

from berth.cli.failures import ExitCode
from tests.unit.cli.conftest import Run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a valid settings file with a password, readable by its owner only."""
    made = tmp_path / "berth.toml"
    made.write_text('[api]\nlisten = "127.0.0.1:1"\n[bus]\nurl = "amqp://u:hunter2@127.0.0.1/"\n')
    made.chmod(0o600)
    return made


def test_a_valid_file_is_accepted(run: Run, file: Path) -> None:
    """The command exits with 0."""
    ended = run("config", "check", file)
    assert (ended.code, ended.out) == (ExitCode.OK, f"{file} is valid\n")


def test_all_mistakes_are_printed(run: Run, file: Path) -> None:
    """The command exits with 2 after one line for each mistake."""
    file.write_text("[api]\nlistn = 1\n[bus]\nprefetch = 0\n")
    ended = run("config", "check", file)
    assert ended.code == ExitCode.USAGE
    bus, api, summary = ended.out.splitlines()
    assert bus.startswith(f"error: {file}:4: bus.prefetch: ")
    assert api.startswith(f"error: {file}:2: api.listn: there is no such setting; did you mean")
    assert summary == f"{file} is invalid: 2 errors, 0 warnings"


def test_warnings_fail_only_if_strict(run: Run, file: Path) -> None:
    """A file that others can read has a warning, which exits with 2 on request."""
    file.chmod(0o644)
    assert run("config", "check", file).code == ExitCode.OK
    ended = run("config", "check", file, "--strict", "--json")
    assert ended.code == ExitCode.USAGE
    (found,) = json.loads(ended.out)["findings"]
    assert found["severity"] == "warning"
    assert found["origin"] == str(file)
    assert "hunter2" not in ended.out


def test_files_of_settings_are_checked(run: Run, file: Path) -> None:
    """A missing policy file is an error at the line of its setting."""
    file.write_text('[policy]\npath = "missing.toml"\n')
    ended = run("config", "check", file, "--role", "scheduler", "--json")
    assert ended.code == ExitCode.USAGE
    (found,) = json.loads(ended.out)["findings"]
    assert (found["key"], found["origin"]) == ("policy.path", f"{file}:2")


def test_settings_are_shown_with_their_origins(
    run: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options override variables, which override the file; secrets are hidden."""
    monkeypatch.setenv("BERTH_AUTH_REGION", "north")
    monkeypatch.setenv("BERTH_ATTESTATION_AUTH_BLOB", "s3cret")
    words = ("config", "show", "--config", file, "--data", "/data", "--json")
    ended = run(*words, "--changed")
    assert "hunter2" not in ended.out
    assert "s3cret" not in ended.out
    rows = {row["key"]: (row["value"], row["origin"]) for row in json.loads(ended.out)["settings"]}
    assert rows == {
        "api.listen": ("127.0.0.1:1", f"{file}:2"),
        "auth.region": ("north", "BERTH_AUTH_REGION"),
        "attestation.auth_blob": ("(hidden)", "BERTH_ATTESTATION_AUTH_BLOB"),
        "bus.url": ("amqp://***@127.0.0.1/", f"{file}:4"),
        "ledger.data_dir": ("/data", "command line"),
    }
    everything = {row["key"]: row for row in json.loads(run(*words).out)["settings"]}
    assert everything["auth.admins"] == {
        "key": "auth.admins",
        "value": ["admin"],
        "origin": "default",
    }


def test_settings_are_shown_as_a_table(run: Run) -> None:
    """Each line has a setting, its value and its origin."""
    lines = [line.split() for line in run("config", "show").out.splitlines()]
    assert ["api.listen", "127.0.0.1:8774", "default"] in lines


def test_invalid_settings_are_not_shown(run: Run) -> None:
    """An invalid option exits with 2."""
    assert run("config", "show", "--listen", "x").code == ExitCode.USAGE
