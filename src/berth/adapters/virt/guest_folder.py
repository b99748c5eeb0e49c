"""The folder of a guest on its host: what every driver keeps there."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from berth.domain.errors import DriverError

CONSOLE_BYTES_MAX = 8 * 1024 * 1024
_ERROR_BYTES = 2_000


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
def writing() -> Generator[None]:
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
