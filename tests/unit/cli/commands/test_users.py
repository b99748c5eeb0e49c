"""`berth user add`: the htpasswd file."""

import io
from pathlib import Path

import bcrypt
import pytest

from tests.unit.cli.conftest import Ended, Run


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make hashing fast."""
    real = bcrypt.gensalt
    monkeypatch.setattr("berth.cli.commands.users.bcrypt.gensalt", lambda: real(4))


def add(
    run: Run, monkeypatch: pytest.MonkeyPatch, path: Path, *words: str, typed: str = "pw"
) -> Ended:
    """Run `berth user add` with the password on standard input."""
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{typed}\n"))
    return run("user", "add", *words, "--htpasswd", path, "--password-stdin")


def test_a_user_is_added_with_a_bcrypt_hash(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The file is readable by its owner only and has a bcrypt hash of the password."""
    path = tmp_path / "users"
    assert add(run, monkeypatch, path, "ann", typed="sécret").code == 0
    name, _, hashed = path.read_text().strip().partition(":")
    assert name == "ann"
    assert bcrypt.checkpw("sécret".encode(), hashed.encode())
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_adding_again_changes_the_password_alone(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Other users, comments, the project and the file's mode are kept."""
    path = tmp_path / "users"
    path.write_text("# ours\nbob:x\n")
    path.chmod(0o640)
    assert add(run, monkeypatch, path, "ann", "--project", "p1").code == 0
    before = path.read_text()
    ended = add(run, monkeypatch, path, "ann", typed="other")
    assert "changed in" in ended.out
    lines = path.read_text().splitlines()
    assert lines[:2] == ["# ours", "bob:x"]
    assert lines[2].endswith(" # project=p1")
    assert lines[2] not in before
    assert path.stat().st_mode & 0o777 == 0o640
    add(run, monkeypatch, path, "ann", "--project", "p2")
    assert path.read_text().strip().endswith(" # project=p2")


def test_a_file_in_another_encoding_is_left_alone(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The error names the file and the remedy, and the file is unchanged."""
    path = tmp_path / "users"
    path.write_bytes("bob:x # café\n".encode("latin-1"))
    ended = add(run, monkeypatch, path, "ann")
    assert ended.code == 1
    assert f"{path} is not UTF-8 text; convert or replace it" in ended.err
    assert path.read_bytes() == "bob:x # café\n".encode("latin-1")


@pytest.mark.parametrize("name", ["", "a:b", "a b", "#a", "a\x07", "x" * 256])
def test_a_name_that_the_file_cannot_hold_is_refused(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """An invalid name ends with 2, and no file is written."""
    path = tmp_path / "users"
    assert add(run, monkeypatch, path, name).code == 2
    assert not path.exists()


@pytest.mark.parametrize("password", ["", "x" * 73])
def test_a_password_that_bcrypt_would_cut_is_refused(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, password: str
) -> None:
    """A password that is empty or longer than 72 bytes ends with 2."""
    assert add(run, monkeypatch, tmp_path / "users", "ann", typed=password).code == 2


def test_a_folder_that_is_not_there_ends_with_1(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The error names the file that cannot be written."""
    ended = add(run, monkeypatch, tmp_path / "nowhere" / "users", "ann")
    assert ended.code == 1
    assert "nowhere/users cannot be read or written" in ended.err
