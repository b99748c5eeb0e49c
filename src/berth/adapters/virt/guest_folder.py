"""The folder of a guest on its host: what every driver keeps there."""

import os
import re
from collections.abc import Collection, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from berth.domain.errors import DriverError
from berth.ports.virt import OrphanFiles

CONSOLE_BYTES_MAX = 8 * 1024 * 1024
_ERROR_BYTES = 2_000
_OWNER: Final = ".host"
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class GuestFolder:
    """The folder of one guest, with its disks and what it and its programs have written."""

    def __init__(self, state_dir: Path, instance_uuid: str) -> None:
        self.path = state_dir / instance_uuid

    def disk(self, name: str) -> Path:
        """Return the file of a disk."""
        return self.path / f"{name}.qcow2"

    @property
    def console(self) -> Path:
        """The file of what the guest writes to its serial console."""
        return self.path / "console.log"

    @property
    def errors(self) -> Path:
        """The file of what the programs that work for it complain about."""
        return self.path / "stderr.log"

    def last_error(self) -> str:
        """Return the end of what was complained about, on one line."""
        text = tail(self.errors, _ERROR_BYTES)
        return " | ".join(line.strip() for line in text.splitlines() if line.strip())

    def trim_console(self) -> None:
        """Keep the console's file from filling the disk: of a long one only the end stays."""
        path = self.console
        if path.exists() and path.stat().st_size > CONSOLE_BYTES_MAX:
            end = tail(path, CONSOLE_BYTES_MAX // 8)
            os.truncate(path, 0)
            with path.open("a") as file:
                file.write(end)


@contextmanager
def os_errors_as_driver_errors() -> Generator[None]:
    """Have what a full or broken disk refuses be an error of the driver.

    Raises:
        DriverError: it has refused something.
    """
    try:
        yield
    except OSError as error:
        raise DriverError(str(error)) from error


def tail(path: Path, bytes_max: int) -> str:
    """Return the end of a text file; nothing when there is no file."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - bytes_max))
            return file.read(bytes_max).decode(errors="replace")
    except FileNotFoundError:
        return ""


def claim_state_dir(state_dir: Path, host: str) -> None:
    """Take a folder for a host, which keeps it.

    An agent destroys what the ledger says to be on another host. Had its host another name since
    its last start, or another host the same folder, that would be all guests.

    Args:
        state_dir: of the guests; it is there.
        host: whose it is to be.

    Raises:
        DriverError: it is another host's, or cannot be written to.
    """
    path = state_dir / _OWNER
    try:
        try:
            with path.open("x") as file:
                file.write(host)
        except FileExistsError:
            owner = path.read_text()
            if owner and owner != host:
                reason = (
                    f"{state_dir} has the guests of host {owner!r}, and this is {host!r}; give "
                    "each host a folder of its own (virt.state_dir), and keep its name "
                    f"(agent.host). If the ledger says that they are on {host!r}, delete {path}"
                )
                raise DriverError(reason) from None
            if not owner:  # a crash came between
                path.write_text(host)
    except OSError as error:
        raise DriverError(f"{path}: {error.strerror}") from error


def leftover_folders(state_dir: Path, known: Collection[str]) -> list[OrphanFiles]:
    """Return the folders that are named as those of guests are, and belong to none.

    Args:
        state_dir: where the folders of guests are.
        known: uuids of guests that have a record here, or run.
    """
    if not state_dir.is_dir():
        return []
    found = [
        leftover_of(path, path.name)
        for path in sorted(state_dir.iterdir())
        if _UUID.fullmatch(path.name) and path.name not in known and path.is_dir()
    ]
    return [one for one in found if one.since_s]


def leftover_of(path: Path, uuid: str) -> OrphanFiles:
    """Return how much a folder takes, and when it was last written; 0 when it is gone."""
    since_s, size_bytes = 0.0, 0
    try:
        since_s = path.stat().st_mtime
        for entry in os.scandir(path):
            file = entry.stat(follow_symlinks=False)
            since_s, size_bytes = max(since_s, file.st_mtime), size_bytes + file.st_blocks * 512
    except OSError:
        pass  # somebody deletes it now
    return OrphanFiles(uuid, since_s, size_bytes)
