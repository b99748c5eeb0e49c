"""What the driver keeps of each guest on disk: a folder with its spec, disks, sockets and logs."""

import os
import shutil
import socket
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from berth.adapters.virt.guest_disks import GuestSize
from berth.adapters.virt.guest_folder import GuestFolder
from berth.domain.errors import DriverError
from berth.ports.virt import Power

_SPEC = "spec.json"
_NEW_SPEC = "spec.new"


class GuestSpec(msgspec.Struct, frozen=True):
    """What a guest is and was last told to do.

    `power` is what it does as far as this driver knows: where its process is missing and that
    is RUNNING or PAUSED, the guest has crashed.
    """

    uuid: str
    image_id: str
    machine: str
    size: GuestSize
    wanted: GuestSize
    """Its size from the next start on."""
    disks: tuple[str, ...] = ()
    power: Power = Power.RUNNING
    reason: str = ""
    is_built: bool = False
    """All its disks are there, and nobody has begun to destroy it."""
    is_saving: bool = False
    """Its memory is being written to disk, and it will be suspended then."""
    needs_image: bool = False
    """It boots more of its image than what its root disk has of it."""
    waits: bool = False
    """It is the target of a live migration that has not come to its end."""
    address: str = ""
    """Where that live migration arrives."""
    accelerator: str = ""
    """What it runs on since its last start, or is going to where it has not been started."""
    cpu_model: str = ""
    """The processor that it sees since then; empty for the accelerator's own."""


class SpecNotWrittenError(DriverError):
    """What becomes of a guest could not be written down: its disk is full, or broken."""


class QemuFolder(GuestFolder):
    """The folder of one guest. Sockets in it may have longer paths than sockets can."""

    @property
    def memory(self) -> Path:
        """The file of a suspended guest's memory."""
        return self.path / "memory.img"

    def make(self) -> None:
        """Make the folder, which nobody else may look into.

        Raises:
            DriverError: there is one, with files of a guest that nothing is known of any more.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(path.name != _NEW_SPEC for path in self.path.iterdir()):
            reason = "there are files of a guest without a spec; move them away, or destroy it"
            raise DriverError(f"{self.path}: {reason}")

    def remove(self) -> None:
        """Delete the folder with all that is in it, the spec last."""
        for path in self.path.glob("*"):
            if path != self._spec:
                path.unlink(missing_ok=True)
        shutil.rmtree(self.path, ignore_errors=True)

    def read(self) -> GuestSpec | None:
        """Return the spec; None when there is none.

        Raises:
            DriverError: it cannot be read.
        """
        try:
            return msgspec.json.decode(self._spec.read_bytes(), type=GuestSpec)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise DriverError(f"{self._spec} cannot be read: {error}") from error

    def write(self, spec: GuestSpec) -> None:
        """Write the spec so that a crash leaves the old one or the new one.

        Raises:
            SpecNotWrittenError: the disk does not take it; the old one is there.
        """
        new = self.path / _NEW_SPEC
        try:
            with new.open("wb") as file:
                file.write(msgspec.json.encode(spec))
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._spec)
        except OSError as error:
            raise SpecNotWrittenError(
                f"{self._spec} cannot be written: {error.strerror}"
            ) from error

    @contextmanager
    def listening(self, name: str) -> Generator[int]:
        """Open a socket in the folder that listens, for a process that inherits it."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one, self.reaching(name) as path:
            Path(path).unlink(missing_ok=True)
            one.bind(path)
            one.listen(1)
            yield one.fileno()

    @contextmanager
    def reaching(self, name: str) -> Generator[str]:
        """Give a path to a socket in the folder that is short enough for one.

        Raises:
            DriverError: the folder is gone.
        """
        try:
            fd = os.open(self.path, os.O_PATH | os.O_DIRECTORY)
        except OSError as error:
            raise DriverError(f"{self.path} cannot be opened: {error.strerror}") from error
        try:
            yield f"/proc/self/fd/{fd}/{name}"
        finally:
            os.close(fd)

    @property
    def _spec(self) -> Path:
        return self.path / _SPEC
