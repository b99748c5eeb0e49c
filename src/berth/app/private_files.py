"""Protects the files of the ledger from other users of the machine."""

import os
import stat
from pathlib import Path
from typing import Final

import structlog

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
_log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger()
# SQLite keeps its log and its shared memory beside the database.
_BESIDE: Final = ("", "-wal", "-shm", "-journal")


def create_private_file(path: Path) -> None:
    """Create an empty file that only its owner can read, unless the file exists.

    A file that SQLite creates itself is readable by all users under the usual umask. A file that
    cannot be created is left to SQLite, whose error names it.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
    except OSError:
        return


def make_database_private(path: Path) -> None:
    """Restrict access to a SQLite database, and to the files beside it, to their owner.

    The log names each file whose mode was wrong. A missing database is created, because SQLite
    would create it readable by all users.
    """
    create_private_file(path)
    for suffix in _BESIDE:
        _restrict(path.with_name(path.name + suffix), FILE_MODE)


def make_folder_private(folder: Path) -> None:
    """Restrict access to a folder to its owner.

    The log names the folder if its mode was wrong.
    """
    _restrict(folder, FOLDER_MODE)


def _restrict(path: Path, mode: int) -> None:
    try:
        found = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return
    if not found & ~mode:
        return
    fields = {"path": str(path), "mode": f"{found:04o}"}
    try:
        path.chmod(found & mode)
    except OSError as error:
        # The process may go on: another user owns the file, and may have given access to a group.
        _log.warning(
            "permissions_too_wide", **fields, advice=f"run chmod {mode:o}", error=str(error)
        )
        return
    _log.warning("permissions_corrected", **fields, corrected=f"{found & mode:04o}")
