"""The file of keys that seal tokens."""

import os
from base64 import b64encode
from pathlib import Path

import pytest

from berth.config.key_file import KeyFile, create_key_file, read_keys, rotate_keys
from berth.domain.errors import InvalidInputError
from berth.services.crypto.sealing import KEY_BYTES
from tests.unit.api.cloud import FakeClock, Told

KEY = b64encode(b"k" * KEY_BYTES).decode()


def write(path: Path, text: str, mode: int = 0o600) -> None:
    """Write a file with this mode."""
    path.write_text(text)
    path.chmod(mode)


def test_a_file_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    """The new file has one key, only its owner can read it, and no other file is left."""
    path = tmp_path / "keys"
    keys = KeyFile(path, FakeClock(), Told()).newest_first
    assert [len(key) for key in keys] == [KEY_BYTES]
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_the_faster_process_makes_it(tmp_path: Path) -> None:
    """An existing file is kept when a second process would create it."""
    path = tmp_path / "keys"
    create_key_file(path)
    before = path.read_text()
    create_key_file(path)
    assert path.read_text() == before


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "has 0 keys, but must have between 1 and 16"),
        (f"{KEY}\n" * 17, "has 17 keys, but must have between 1 and 16"),
        (f"# one\n\n{KEY}\nabc\n", "line 4: a key must be 32 bytes"),
        (f"{KEY[:-4]}\n", "line 1: a key must be 32 bytes"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    """The error has the line number or the count, but no key."""
    path = tmp_path / "keys"
    write(path, text)
    with pytest.raises(InvalidInputError) as caught:
        read_keys(path)
    assert reason in str(caught.value)
    assert KEY[:8] not in str(caught.value)


def test_a_file_that_everybody_may_read_is_refused(tmp_path: Path) -> None:
    """A file that the group can read is accepted, as in containers; a public one is not."""
    path = tmp_path / "keys"
    write(path, KEY, 0o640)
    assert read_keys(path) == [b"k" * KEY_BYTES]
    path.chmod(0o644)
    with pytest.raises(InvalidInputError, match="every user"):
        read_keys(path)


def test_what_cannot_be_made_or_read_is_told(tmp_path: Path) -> None:
    """The error names the file and what cannot be done with it."""
    with pytest.raises(InvalidInputError, match=r"none.*cannot be created"):
        create_key_file(tmp_path / "none" / "keys")
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_keys(tmp_path / "keys")
    with pytest.raises(InvalidInputError, match="cannot be written"):
        rotate_keys(tmp_path / "none" / "keys", kept=3)


def test_rotation_puts_a_new_key_first(tmp_path: Path) -> None:
    """A rotation drops the oldest keys beyond the limit and keeps the file's mode."""
    path = tmp_path / "keys"
    write(path, KEY, 0o640)
    assert [rotate_keys(path, kept=3) for _ in range(3)] == [2, 3, 3]
    keys = read_keys(path)
    assert len(set(keys)) == 3
    assert b"k" * KEY_BYTES not in keys
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_running_server_takes_up_a_rotation(tmp_path: Path) -> None:
    """A changed file is read after a second, and an invalid one changes nothing."""
    path, clock, told = tmp_path / "keys", FakeClock(), Told()
    file = KeyFile(path, clock, told)
    rotate_keys(path, kept=3)
    assert len(file.newest_first) == 1
    clock.seconds += 1
    assert len(file.newest_first) == 2
    write(path, "nonsense")
    os.utime(path, (5, 5))
    clock.seconds += 1
    assert len(file.newest_first) == 2
    path.unlink()
    clock.seconds += 1
    assert len(file.newest_first) == 2
    assert told.events == ["key_file_read"]
    assert [name for name, _, _ in told.failures] == ["key_file_refused"] * 2
