"""The file of contexts: what it may contain, and who may read it."""

from pathlib import Path

import pytest

from berth.cli.access.context_file import (
    FIELDS,
    Contexts,
    contexts_path,
    read_contexts,
    write_contexts,
)
from berth.cli.failures import CommandError, ExitCode


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    """Write a file with a mode and return its path."""
    path.write_text(text, "utf-8")
    path.chmod(mode)
    return path


def test_the_path_follows_the_xdg_specification(tmp_path: Path) -> None:
    """XDG_CONFIG_HOME replaces ~/.config."""
    found = contexts_path({"XDG_CONFIG_HOME": str(tmp_path)})
    assert found == tmp_path / "berth" / "contexts.toml"
    assert contexts_path({}) == Path("~/.config/berth/contexts.toml").expanduser()


def test_a_missing_file_has_no_contexts(tmp_path: Path) -> None:
    """A missing file is no error."""
    assert read_contexts(tmp_path / "none.toml") == Contexts(tmp_path / "none.toml")


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    """All fields and names survive, with quotes, backslashes and other alphabets."""
    fields = {key: f'{key} "a" \\ ü' for key in FIELDS}
    path = tmp_path / "new" / "berth" / "contexts.toml"
    made = Contexts(path, 'dé "v"', {'dé "v"': fields, "b.c": {"url": "http://h"}})
    write_contexts(made)
    assert read_contexts(path) == made
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_wide_mode_is_repaired_by_the_next_change(tmp_path: Path) -> None:
    """Writing removes the rights of other users."""
    path = written(tmp_path / "c.toml", "", 0o644)
    write_contexts(Contexts(path))
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("mode", "text", "said"),
    [
        (0o640, '[contexts.a]\nurl = "http://h"\npassword = "p"', "that other users can read"),
        (0o604, '[contexts.a]\nurl = "http://h"\ntoken = "p"', "that other users can read"),
        (0o620, '[contexts.a]\nurl = "http://h"', "can be changed by other users"),
    ],
)
def test_a_file_that_others_can_use_is_refused(
    tmp_path: Path, mode: int, text: str, said: str
) -> None:
    """Secrets must be private, and no other user may redirect commands."""
    path = written(tmp_path / "c.toml", text, mode)
    with pytest.raises(CommandError) as error:
        read_contexts(path)
    assert said in str(error.value)
    assert f"chmod 600 {path}" in str(error.value)
    assert error.value.code is ExitCode.USAGE


def test_a_readable_file_without_secrets_causes_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The warning says what to do, and the file is used."""
    path = written(tmp_path / "c.toml", '[contexts.a]\nurl = "http://h"', 0o644)
    assert read_contexts(path).by_name == {"a": {"url": "http://h"}}
    assert f"chmod 600 {path}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nonsense", "is not valid TOML"),
        ('curent = "a"', "'curent'; did you mean 'current'?"),
        ("current = 3", "must have a text `current`"),
        ("[contexts]\na = 3", "must have a table for the context 'a'"),
        ("[contexts.a]\nurl = 3", "must have a text as a.url"),
        ('[contexts.a]\nuri = "http://h"', "a.uri; did you mean 'url'?"),
    ],
)
def test_a_malformed_file_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """The error names the file and the key."""
    path = written(tmp_path / "c.toml", text)
    with pytest.raises(CommandError, match=r"c\.toml") as error:
        read_contexts(path)
    assert said in str(error.value)


def test_an_unknown_context_is_corrected(tmp_path: Path) -> None:
    """The error suggests the nearest name, or the list."""
    found = Contexts(tmp_path, None, {"production": {}})
    with pytest.raises(CommandError, match="did you mean 'production'"):
        found.fields_of("prodution")
    with pytest.raises(CommandError, match="berth context list"):
        found.fields_of("xyz")


def test_the_current_context_may_be_removed(tmp_path: Path) -> None:
    """No context is current then."""
    found = Contexts(tmp_path, "a", {"a": {}, "b": {}})
    assert found.without("a") == Contexts(tmp_path, None, {"b": {}})
    assert found.without("b").current == "a"
