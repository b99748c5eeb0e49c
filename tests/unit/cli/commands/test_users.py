"""`berth user`: the htpasswd file."""

import io
import json
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


FILE = "# ours\nbob:$2y$05$%s # project=web\nadmin:$2y$05$%s\ntop:$2y$05$%s # no project\n" % (
    ("x" * 53,) * 3
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file with three users."""
    path = tmp_path / "users"
    path.write_text(FILE)
    path.chmod(0o640)
    return path


def test_users_are_listed_without_their_hashes(run: Run, path: Path) -> None:
    """The list has the project and the roles of each user."""
    ended = run("user", "list", "--htpasswd", path, "--json")
    assert json.loads(ended.out)["users"] == [
        {"user": "admin", "project": "admin", "roles": ["admin", "member", "reader"]},
        {"user": "bob", "project": "web", "roles": ["member", "reader"]},
        {"user": "top", "project": None, "roles": []},
    ]
    ended = run("user", "list", "--htpasswd", path)
    assert [line.rstrip().split(maxsplit=2) for line in ended.out.splitlines()[1:]] == [
        ["admin", "admin", "admin, member, reader"],
        ["bob", "web", "member, reader"],
        ["top", "-", "-"],
    ]
    assert "$2y$" not in ended.out
    path.write_text("# nothing\n")
    assert run("user", "list", "--htpasswd", path).out == "no users\n"
    path.write_text("bob:plain\n")
    ended = run("user", "list", "--htpasswd", path)
    assert ended.code == 2
    assert "line 1" in ended.err
    assert "plain" not in ended.err


def test_the_roles_of_a_user_are_shown(run: Run, path: Path) -> None:
    """They follow from the name and the project; an unknown user ends with 4."""
    assert run("user", "roles", "bob", "--htpasswd", path).out == "member\nreader\n"
    ended = run("user", "roles", "admin", "--htpasswd", path, "--json")
    assert json.loads(ended.out) == {"roles": ["admin", "member", "reader"]}
    assert run("user", "roles", "top", "--htpasswd", path).out == "no roles\n"
    assert run("user", "roles", "ann", "--htpasswd", path).code == 4


def test_a_user_is_removed(run: Run, path: Path) -> None:
    """Other lines and the mode of the file stay; a user whose name begins alike stays too."""
    path.write_text(FILE + "bobby:x\n")
    ended = run("user", "remove", "bob", "--htpasswd", path)
    assert ended.out == f"user bob removed from {path}\n"
    kept = [line for line in FILE.splitlines() if not line.startswith("bob:")]
    assert path.read_text().splitlines() == [*kept, "bobby:x"]
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_password_is_changed(run: Run, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """The project stays, and so do the lines of others."""
    monkeypatch.setattr("sys.stdin", io.StringIO("new\n"))
    ended = run("user", "password", "bob", "--htpasswd", path, "--password-stdin")
    assert ended.out == f"password of user bob changed in {path}\n"
    *others, line = path.read_text().splitlines()
    assert others == [one for one in FILE.splitlines() if not one.startswith("bob:")]
    hashed, _, comment = line.removeprefix("bob:").partition(" ")
    assert bcrypt.checkpw(b"new", hashed.encode())
    assert comment == "# project=web"


@pytest.mark.parametrize("words", [("remove",), ("password", "--password-stdin")])
def test_an_unknown_user_ends_with_4(run: Run, path: Path, words: tuple[str, ...]) -> None:
    """The file stays as it is; a comment is no user, and a missing file ends with 1."""
    for name in ("ann", "# ours"):
        ended = run("user", words[0], name, *words[1:], "--htpasswd", path)
        assert ended.code == 4
        assert "berth user list" in ended.err
    assert path.read_text() == FILE
    path.unlink()
    assert run("user", words[0], "bob", *words[1:], "--htpasswd", path).code == 1
    assert not path.exists()
