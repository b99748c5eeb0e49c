"""The folders of guests on a host, for the QEMU driver and the libvirt driver."""

import os
from collections.abc import Collection, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from berth.adapters.virt.contained_paths import checked_name, contained_path
from berth.domain.errors import DriverError
from berth.domain.uuids import is_uuid
from berth.ports.virt import OrphanFiles

CONSOLE_BYTES_MAX = 8 * 1024 * 1024
_ERROR_BYTES = 2_000
_OWNER: Final = ".host"


class GuestFolder:
    """The folder of one guest, with its disks, console log and error log.

    Args:
        state_dir: the folder of all guests.
        instance_uuid: the guest's instance.
        is_local: whether the folder is on this host rather than on another one.

    Raises:
        DriverError: `instance_uuid` is not a UUID, or the folder is a symbolic link.
    """

    def __init__(self, state_dir: Path, instance_uuid: str, *, is_local: bool = True) -> None:
        # The uuid comes from outside this process. A path in its place would lead out of the
        # folder, and the deletion of the guest would delete the files at that path.
        if not is_uuid(instance_uuid):
            raise DriverError(f"{instance_uuid[:80]!r} is not the UUID of an instance")
        self._is_local = is_local
        self.path = (
            contained_path(state_dir, instance_uuid) if is_local else state_dir / instance_uuid
        )

    def disk(self, name: str) -> Path:
        """Return the file of a disk.

        Raises:
            DriverError: the name is not a plain file name, or the file is a symbolic link.
        """
        file = checked_name(f"{name}.qcow2")
        return contained_path(self.path, file) if self._is_local else self.path / file

    @property
    def console(self) -> Path:
        """The log file of the guest's serial console."""
        return self.path / "console.log"

    @property
    def errors(self) -> Path:
        """The file with the error output of the programs that run for the guest."""
        return self.path / "stderr.log"

    def last_error(self) -> str:
        """Return the end of the error output, on one line."""
        text = tail(self.errors, _ERROR_BYTES)
        return " | ".join(line.strip() for line in text.splitlines() if line.strip())

    def trim_console(self) -> None:
        """Cut a console log of more than 8 MiB to its last MiB, so that it cannot fill the disk."""
        path = self.console
        if path.is_symlink():
            return
        # The file is truncated in place, since QEMU keeps it open and appends to it.
        if path.exists() and path.stat().st_size > CONSOLE_BYTES_MAX:
            end = tail(path, CONSOLE_BYTES_MAX // 8)
            os.truncate(path, 0)
            with path.open("a") as file:
                file.write(end)


@contextmanager
def os_errors_as_driver_errors() -> Generator[None]:
    """Convert an OSError within the context, such as a full disk, into a DriverError.

    Raises:
        DriverError: the operating system reported an error.
    """
    try:
        yield
    except OSError as error:
        raise DriverError(
            f"cannot access a file on this host ({error}); check the disk and the permissions"
        ) from error


def tail(path: Path, bytes_max: int) -> str:
    """Return the end of a text file, or an empty string if there is no such file.

    A symbolic link is not followed but causes an OSError, because the guest's programs can write to
    the folder of the file.
    """
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - bytes_max))
            return file.read(bytes_max).decode(errors="replace")
    except FileNotFoundError:
        return ""


def claim_state_dir(state_dir: Path, host: str) -> None:
    """Record a host as the owner of a folder of guests, or check that it is the recorded owner.

    An agent destroys the guests that are on another host according to the ledger. If its host had
    been renamed, or shared the folder with another host, the agent would destroy guests that are in
    use (ADR 0022).

    Args:
        state_dir: the existing folder of guests.
        host: the host's name.

    Raises:
        DriverError: the folder belongs to another host, or cannot be written.
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
                    f"{state_dir} holds the guests of host {owner!r}, but this host is {host!r}; "
                    "give each host a folder of its own (virt.state_dir) and keep its name "
                    f"(agent.host). If the ledger has these guests on {host!r}, delete {path}"
                )
                raise DriverError(reason) from None
            if not owner:  # an agent died between creating and writing the file
                path.write_text(host)
    except OSError as error:
        reason = (
            f"cannot record or read the owner of the guests in {path} ({error.strerror}); check "
            "the permissions and the free space"
        )
        raise DriverError(reason) from error


def leftover_folders(state_dir: Path, known: Collection[str]) -> list[OrphanFiles]:
    """Return the guest folders that belong to no known guest.

    Args:
        state_dir: the parent of the guests' folders, which are named after instance uuids.
        known: the uuids of guests that have a record here, or run.
    """
    if not state_dir.is_dir():
        return []
    found = [
        leftover_of(path, path.name)
        for path in sorted(state_dir.iterdir())
        if is_uuid(path.name) and path.name not in known and path.is_dir()
    ]
    return [one for one in found if one.since_s]


def leftover_of(path: Path, uuid: str) -> OrphanFiles:
    """Return a folder as leftover files of an instance; `since_s` is 0 if the folder is gone."""
    since_s, size_bytes = 0.0, 0
    try:
        since_s = path.stat().st_mtime
        for entry in os.scandir(path):
            file = entry.stat(follow_symlinks=False)
            since_s, size_bytes = max(since_s, file.st_mtime), size_bytes + file.st_blocks * 512
    except OSError:
        pass  # it is being deleted at this moment
    return OrphanFiles(uuid, since_s, size_bytes)
