"""The public keys of the control plane that a host has pinned."""

import os
from pathlib import Path

import pytest

from berth.adapters.gateway.control_pins import ControlPins, pins_path
from berth.domain.errors import InvalidInputError

KEYS = (bytes(range(32)), bytes(range(1, 33)))


def test_keys_are_kept_beside_the_key_of_the_host(tmp_path: Path) -> None:
    """They are replaced as a whole, for the owner alone, and no other file is left."""
    path = pins_path(tmp_path / "agent.key")
    pins = ControlPins(path)
    assert not pins.keys
    pins.save(KEYS)
    pins.save(KEYS[1:])
    assert pins.keys == ControlPins(path).keys == ControlPins(path).required() == KEYS[1:]
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["agent.key.control"]


def test_an_agent_without_pins_is_told_how_to_get_them(tmp_path: Path) -> None:
    """The error names the file and the command."""
    with pytest.raises(InvalidInputError, match=r"agent\.key\.control does not exist.*enroll"):
        ControlPins(pins_path(tmp_path / "agent.key")).required()


@pytest.mark.parametrize("text", ["", "# none\n", "AAAA\n", "no base64\n", "\xff\n"])
def test_a_wrong_file_is_refused(tmp_path: Path, text: str) -> None:
    """A file without keys, or with anything else, is not used."""
    path = tmp_path / "pins"
    path.write_text(text, "latin-1")
    path.chmod(0o600)
    with pytest.raises(InvalidInputError):
        ControlPins(path)


def test_a_file_that_others_can_change_is_refused(tmp_path: Path) -> None:
    """A user that can change it could act as the control plane."""
    path = tmp_path / "pins"
    ControlPins(path).save(KEYS)
    path.chmod(0o620)
    with pytest.raises(InvalidInputError, match=f"chmod 600 {path}"):
        ControlPins(path)


def test_a_malformed_key_is_not_saved(tmp_path: Path) -> None:
    """What the control plane sends is checked, and the former keys stay."""
    pins = ControlPins(tmp_path / "pins")
    pins.save(KEYS)
    for keys in ((os.urandom(31),), (), (b"k" * 32,) * 17):
        with pytest.raises(InvalidInputError):
            pins.save(keys)
    assert ControlPins(tmp_path / "pins").keys == pins.keys == KEYS


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """The error names the file."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match="cannot write"):
        ControlPins(tmp_path / "file" / "pins").save(KEYS)
