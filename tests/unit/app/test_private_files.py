"""The files of the ledger are kept from other users of the machine."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from berth.adapters.ledger.sqlite.sqlite_file import connect
from berth.app.private_files import make_folder_private
from berth.app.run import make_data_dir
from berth.config.settings import LedgerSettings


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    """Let new files be readable by everybody, as by default."""
    old = os.umask(0o022)
    yield
    os.umask(old)


def mode_of(path: Path) -> int:
    """Return the permissions of a file."""
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_ledger_is_private(tmp_path: Path) -> None:
    """The folder gets 0700; the database and what SQLite keeps beside it get 0600."""
    ledger = LedgerSettings(data_dir=tmp_path / "data")
    with capture_logs() as logs:
        make_data_dir(ledger)
        opened = connect(tmp_path / "data" / "berth.sqlite")
        opened.execute("CREATE TABLE one (x)")
        files = list((tmp_path / "data").iterdir())
        assert {mode_of(path) for path in files} == {0o600}
        assert {path.name for path in files} > {"berth.sqlite"}
        opened.close()
    assert mode_of(tmp_path / "data") == 0o700
    assert logs == []


def test_an_open_ledger_is_made_private(tmp_path: Path) -> None:
    """The modes of an existing folder and database are corrected, and the log says so."""
    ledger = LedgerSettings(data_dir=tmp_path)
    opened = connect(tmp_path / "berth.sqlite")
    opened.execute("CREATE TABLE one (x)")
    tmp_path.chmod(0o755)
    for path in tmp_path.iterdir():
        path.chmod(0o644)
    with capture_logs() as logs:
        make_data_dir(ledger)
    assert mode_of(tmp_path) == 0o700
    assert {mode_of(path) for path in tmp_path.iterdir()} == {0o600}
    assert {(line["event"], line["log_level"]) for line in logs} == {
        ("permissions_corrected", "warning")
    }
    assert {"path": str(tmp_path), "mode": "0755", "corrected": "0700"}.items() <= logs[0].items()
    with capture_logs() as again:
        make_data_dir(ledger)
    assert again == []
    opened.close()


def test_a_file_elsewhere_does_not_change_its_folder(tmp_path: Path) -> None:
    """Of a ledger that the URL names, only the file is restricted; others may need the folder."""
    tmp_path.chmod(0o755)
    path = tmp_path / "own.sqlite"
    path.touch(0o644)
    make_data_dir(LedgerSettings(url=f"sqlite:///{path}"))
    assert (mode_of(tmp_path), mode_of(path)) == (0o755, 0o600)
    make_data_dir(LedgerSettings(url="postgresql://u@h/db"))


def test_what_cannot_be_corrected_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of another user stays as it is, and the log names the remedy."""

    def refused(self: Path, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    tmp_path.chmod(0o755)
    monkeypatch.setattr(Path, "chmod", refused)
    with capture_logs() as logs:
        make_folder_private(tmp_path)
    assert [line["event"] for line in logs] == ["permissions_too_wide"]
    assert logs[0]["advice"] == "run chmod 700"
