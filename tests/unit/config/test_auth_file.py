"""The htpasswd file of users."""

import os
from pathlib import Path

import bcrypt
import pytest

from berth.api.auth.authentication import Account
from berth.config.auth_file import AuthFile, parse_accounts
from berth.domain.errors import InvalidInputError
from tests.unit.api.cloud import FakeClock, Told

BOB = bcrypt.hashpw(b"builder", b"$2b$04$" + b"a" * 21 + b"u").decode()
EVE = BOB.replace("$2b$", "$2y$")


def test_lines_are_accounts() -> None:
    """A comment names the project, which is otherwise the user's name."""
    text = f"# users\n\nbob:{BOB}\n  eve:{EVE}  # project=web\ntop:{EVE} # no project\n"
    assert parse_accounts(text, "f") == {
        "bob": Account("bob", BOB.encode(), "bob"),
        "eve": Account("eve", EVE.encode(), "web"),
        "top": Account("top", EVE.encode(), ""),
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("bob", "line 1: must be USER:HASH"),
        (f":{BOB}", "line 1: must be USER:HASH"),
        (f"bob:{BOB}\nbob:{BOB}", "line 2: repeats user 'bob'"),
        ("bob:$apr1$x$y", "line 1: the hash is not a bcrypt hash"),
        ("bob:{SHA}x", "line 1: the hash is not a bcrypt hash"),
        (f"bob:{BOB} # role=admin", "line 1: only `# project=NAME` or"),
        (f"bob:{BOB} project=web", "line 1: only `# project=NAME` or"),
        (f"bob:{BOB} # no project=web", "line 1: only `# project=NAME` or"),
    ],
)
def test_a_wrong_line_is_named(text: str, reason: str) -> None:
    """The error has the line number but not the hash."""
    with pytest.raises(InvalidInputError) as caught:
        parse_accounts(text, "users")
    assert str(caught.value).startswith(f"users: {reason}")
    assert BOB not in str(caught.value)


def write(path: Path, text: str, age_s: int) -> None:
    """Write the file with a modification time."""
    path.write_text(text)
    os.utime(path, (age_s, age_s))


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    """The file is checked at most once a second, and a change raises the generation."""
    path, clock, told = tmp_path / "users", FakeClock(), Told()
    write(path, f"bob:{BOB}\n", 1)
    accounts = AuthFile(path, clock, told)
    before = accounts.generation
    write(path, f"eve:{EVE}\n", 2)
    assert accounts.generation == before
    clock.seconds += 1
    assert accounts.generation == before + 1
    assert accounts.accounts.get("bob") is None
    assert accounts.accounts.get("eve") is not None
    assert told.events == ["auth_file_read"]


@pytest.mark.parametrize("text", ["bob:plain", None, "bob:\udcff"])
def test_a_file_that_became_wrong_changes_nothing(tmp_path: Path, text: str | None) -> None:
    """An invalid file leaves the accounts in force and is reported once."""
    path, clock, told = tmp_path / "users", FakeClock(), Told()
    write(path, f"bob:{BOB}\n", 1)
    accounts = AuthFile(path, clock, told)
    if text is None:
        path.unlink()
    else:
        path.write_bytes(text.encode(errors="surrogateescape"))
    for _ in range(3):
        clock.seconds += 1
        assert accounts.generation == 0
    assert accounts.accounts.get("bob") is not None
    assert [name for name, _, _ in told.failures] == ["auth_file_refused"]
    assert BOB not in repr(told)


def test_a_wrong_file_at_the_start_is_an_error(tmp_path: Path) -> None:
    """A missing file at the start raises an error."""
    with pytest.raises(InvalidInputError, match="cannot be read"):
        AuthFile(tmp_path / "none", FakeClock(), Told())


def test_the_dummy_costs_as_much_as_most_hashes(tmp_path: Path) -> None:
    """The dummy hash has the cost of the file's hashes and matches no password."""
    path = tmp_path / "users"
    path.write_text(f"bob:{BOB}\n")
    dummy = AuthFile(path, FakeClock(), Told()).dummy_hash
    assert dummy.startswith(b"$2b$04$")
    assert not bcrypt.checkpw(b"", dummy)
    path.write_text("")
    assert AuthFile(path, FakeClock(), Told()).dummy_hash.startswith(b"$2b$12$")
