"""The file of a host's private key."""

import stat
from pathlib import Path

import pytest

from berth.adapters.gateway.host_key import HostKeyFile
from berth.domain.errors import InvalidInputError


def test_an_enrolment_makes_a_new_key_each_time(tmp_path: Path) -> None:
    """A key that was revoked is not enrolled again; the old one stays until the new is accepted."""
    path = tmp_path / "agent.key"
    old = HostKeyFile.create(path).public_key
    unknown = HostKeyFile.enrolling(path).public_key
    new = HostKeyFile.enrolling(path)
    assert len({old, unknown, new.public_key}) == 3
    assert HostKeyFile(path).public_key == old
    new.replace(path)
    assert HostKeyFile(path).public_key == new.public_key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["agent.key"]


def test_an_enrolment_drops_the_successor_of_the_old_key(tmp_path: Path) -> None:
    """A rotation after it does not use a key that an interrupted rotation left."""
    path = tmp_path / "agent.key"
    left = HostKeyFile.create(path).prepare()
    HostKeyFile.enrolling(path).replace(path)
    assert HostKeyFile(path).prepare() != left


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    """The error names the file and the command that protects it."""
    path = tmp_path / "agent.key"
    HostKeyFile.create(path)
    path.chmod(0o640)
    with pytest.raises(InvalidInputError, match=f"chmod 600 {path}"):
        HostKeyFile(path)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """The error of an enrolment names the file."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match=r"file/agent\.key"):
        HostKeyFile.enrolling(tmp_path / "file" / "agent.key")
