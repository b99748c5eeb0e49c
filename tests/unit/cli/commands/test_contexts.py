"""`berth context`: add, list, show, use and remove."""

import json
from io import StringIO
from pathlib import Path

import pytest

from tests.unit.cli.cloud import Cloud
from tests.unit.cli.conftest import Run


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of the user's file, which does not exist yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "berth" / "contexts.toml"


def test_commands_use_the_current_context(run: Run, cloud: Cloud, path: Path) -> None:
    """The first context is the current one; `use` and options choose another."""
    assert run("context", "add", "a", "--url", "http://a:1", "--token", "t").code == 0
    assert run("context", "add", "b", "--url", "http://b:2").code == 0
    run("server", "list")
    assert cloud.last.url.host == "a"
    assert cloud.last.headers["X-Auth-Token"] == "t"
    run("--context", "b", "server", "list")
    assert cloud.last.url.host == "b"
    assert "X-Auth-Token" not in cloud.last.headers
    assert run("context", "use", "b").code == 0
    run("server", "list")
    assert cloud.last.url.host == "b"
    assert path.stat().st_mode & 0o777 == 0o600


def test_contexts_are_listed_without_secrets(run: Run, path: Path) -> None:
    """The current one is marked."""
    assert "no contexts" in run("context", "list").out
    run("context", "add", "a", "--url", "http://a", "--token", "s3same")
    run("context", "add", "b", "--cloud", "c", "--use")
    out = run("context", "list").out
    assert "s3same" not in out
    assert "cloud c" in out
    found = json.loads(run("--json", "context", "list").out)["contexts"]
    assert [(one["name"], one["is_current"]) for one in found] == [("a", False), ("b", True)]
    assert found[0]["token"] == "(hidden)"


def test_the_values_in_force_are_shown_with_their_origins(run: Run, path: Path) -> None:
    """NAME and options change what is shown; secrets are hidden."""
    run("context", "add", "a", "--url", "http://a", "--user", "ann", "--password-file", "/p")
    found = json.loads(run("context", "show", "--json").out)
    assert found == {
        "context": "a",
        "values": [
            {"key": "url", "value": "http://a", "origin": f"context a ({path})"},
            {"key": "user", "value": "ann", "origin": f"context a ({path})"},
            {"key": "password_file", "value": "/p", "origin": f"context a ({path})"},
        ],
    }
    out = run("context", "show", "a", "--token", "s3same").out
    assert "--token" in out
    assert "s3same" not in out
    assert "no context" in run("--url", "http://x", "context", "show").out


def test_a_password_is_stored_only_on_request(
    run: Run, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --store-password, from the option or from standard input."""
    words = ("context", "add", "a", "--url", "http://a", "--user", "ann")
    ended = run(*words, "--password", "s3same")
    assert ended.code == 2
    assert "--store-password" in ended.err
    assert not path.exists()
    assert run(*words, "--password", "s3same", "--store-password").code == 0
    assert 's3same"' in path.read_text()
    assert run(*words).code == 0
    assert "s3same" not in path.read_text()
    monkeypatch.setattr("sys.stdin", StringIO("s3same\n"))
    assert run(*words, "--store-password").code == 0
    assert 's3same"' in path.read_text()
    ended = run(*words, "--store-password")
    assert ended.code == 2
    assert "standard input" in ended.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give the address with --url"),
        (("--url", "nonsense"), "must be an HTTP URL"),
        (("--url", "http://a", "--password-file", "f"), "needs --user"),
        (
            ("--url", "u", "--user", "x", "--password-file", "f", "--password-command", "c"),
            "exclude each other",
        ),
        (("--url", "http://a", "--user", "a\nb"), "printable"),
        (("--url", "http://a", "--os-cloud", "c"), "have no meaning here"),
    ],
)
def test_an_incomplete_context_is_refused(
    run: Run, path: Path, words: tuple[str, ...], said: str
) -> None:
    """The error says what to give, and nothing is written."""
    ended = run("context", "add", "a", *words)
    assert ended.code == 2
    assert said in ended.err
    assert not path.exists()


def test_a_context_can_be_removed(run: Run, path: Path) -> None:
    """A misspelt name removes nothing, and is corrected."""
    run("context", "add", "production", "--url", "http://a")
    ended = run("context", "remove", "prodution")
    assert ended.code == 4
    assert "did you mean 'production'?" in ended.err
    assert json.loads(run("context", "remove", "production", "--json").out) == {
        "removed": "production"
    }
    assert run("context", "use", "production").code == 4
