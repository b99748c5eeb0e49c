"""The file of keys that sign messages on the broker."""

from base64 import b64encode
from pathlib import Path

import pytest

from berth.config.bus_keys import BusKeyFile, read_bus_keys, rotate_bus_keys
from berth.config.key_lines import KEY_BYTES
from berth.domain.errors import InvalidInputError
from tests.unit.api.cloud import FakeClock, Told

_KEY = b64encode(b"k" * KEY_BYTES).decode()


def test_a_file_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    """A new file has the key in use and the next one, and only its owner can read it."""
    path = tmp_path / "keys"
    keys = BusKeyFile(path, FakeClock(), Told()).all
    assert [len(key) for key in keys] == [KEY_BYTES] * 2
    assert path.stat().st_mode & 0o777 == 0o600
    assert BusKeyFile(path, FakeClock(), Told()).all == keys


def test_each_file_accepts_the_one_before_and_after(tmp_path: Path) -> None:
    """Before and after a rotation, each file contains the key with which the other one signs."""
    path = tmp_path / "keys"
    rotate_bus_keys(path)
    for _ in range(3):
        before = read_bus_keys(path)
        rotate_bus_keys(path)
        after = read_bus_keys(path)
        assert after[0] in before
        assert before[0] in after
        assert after[0] != before[0]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_running_process_reads_the_new_keys(tmp_path: Path) -> None:
    """A changed file is read again, and an invalid one leaves the keys in force."""
    path, clock, told = tmp_path / "keys", FakeClock(), Told()
    file = BusKeyFile(path, clock, told)
    rotate_bus_keys(path)
    clock.seconds += 2.0
    assert list(file.all) == read_bus_keys(path)
    kept = list(file.all)
    path.write_text("nonsense")
    clock.seconds += 2.0
    assert list(file.all) == kept
    assert "nonsense" not in str(told.failures)


@pytest.mark.parametrize("text", ["", "abc\n", f"{_KEY}\n" * 4, f"{_KEY[:-4]}\n"])
def test_a_wrong_file_is_refused(tmp_path: Path, text: str) -> None:
    """The error names the file, and quotes no key."""
    path = tmp_path / "keys"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(InvalidInputError) as caught:
        read_bus_keys(path)
    assert str(path) in str(caught.value)
    assert _KEY[:8] not in str(caught.value)


def test_a_file_that_everybody_may_read_is_refused(tmp_path: Path) -> None:
    """The error says how to protect the file."""
    path = tmp_path / "keys"
    path.write_text(f"{_KEY}\n")
    path.chmod(0o604)
    with pytest.raises(InvalidInputError, match="chmod 600"):
        read_bus_keys(path)
