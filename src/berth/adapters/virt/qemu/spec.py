"""The folder of a QEMU guest: its spec, disks, sockets and logs."""

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
    """The driver's description of a guest.

    `power` is the last power state that the driver commanded or observed, `reason` its explanation.
    A guest that is RUNNING or PAUSED but has no process has crashed.
    """

    uuid: str
    image_id: str
    machine: str
    size: GuestSize
    wanted: GuestSize
    """The size that applies from the next start on."""
    disks: tuple[str, ...] = ()
    power: Power = Power.RUNNING
    reason: str = ""
    is_built: bool = False
    """Whether all disks of the guest exist and its destruction has not begun."""
    is_saving: bool = False
    """Whether the guest's memory is being saved, after which the guest is suspended."""
    needs_image: bool = False
    """Whether the guest boots from the image's file rather than from its root disk alone."""
    waits: bool = False
    """Whether the guest is the target of an unfinished live migration."""
    address: str = ""
    """The address of the live migration to this host, or of the export of its disks."""
    accelerator: str = ""
    """The accelerator of the guest's last start."""
    rescue_image: str = ""
    """The id of the image from which the guest boots while it is rescued."""
    cpu_model: str = ""
    """The CPU model of the guest's last start; empty for the accelerator's default."""
    has_vnc: bool = False
    """Whether the guest has a graphics card and a VNC server since its last start."""


class SpecNotWrittenError(DriverError):
    """The spec of a guest could not be written, for example because the disk is full."""


class QemuFolder(GuestFolder):
    """The folder of one QEMU guest."""

    @property
    def memory(self) -> Path:
        """The file with the saved memory of a suspended guest."""
        return self.path / "memory.img"

    def make(self) -> None:
        """Create the folder, accessible to this user only.

        Raises:
            DriverError: the folder contains files of an unknown guest.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(path.name != _NEW_SPEC for path in self.path.iterdir()):
            reason = "files of a guest without a spec; move them away, or destroy the guest"
            raise DriverError(f"{self.path} contains {reason}")

    def remove(self) -> None:
        """Delete the folder, the spec last, so that an interrupted removal is resumed.

        Raises:
            DriverError: the folder, or a file in it, cannot be deleted.
        """
        try:
            for path in self.path.iterdir():
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                elif path != self._spec:
                    path.unlink(missing_ok=True)
            self._spec.unlink(missing_ok=True)
            self.path.rmdir()
        except FileNotFoundError:
            return  # there is no such folder
        except OSError as error:
            raise DriverError(
                f"cannot delete {error.filename or self.path} ({error.strerror}); check the disk "
                "and the permissions"
            ) from error

    def read(self) -> GuestSpec | None:
        """Return the spec, or None when there is none.

        Raises:
            DriverError: the spec cannot be read.
        """
        try:
            return msgspec.json.decode(self._spec.read_bytes(), type=GuestSpec)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise DriverError(
                f"cannot read {self._spec} ({error}); check the permissions, or destroy the guest"
            ) from error

    def write(self, spec: GuestSpec) -> None:
        """Write the spec atomically, so that a crash leaves either the old spec or the new one.

        Raises:
            SpecNotWrittenError: writing failed; the old spec remains.
        """
        new = self.path / _NEW_SPEC
        try:
            with new.open("wb") as file:
                file.write(msgspec.json.encode(spec))
                file.flush()
                # Without fsync, the file system may persist the rename first, which would leave an
                # empty spec after a power loss.
                os.fsync(file.fileno())
            new.replace(self._spec)
        except OSError as error:
            raise SpecNotWrittenError(
                f"cannot write {self._spec} ({error.strerror}); check the permissions and the space"
            ) from error

    @contextmanager
    def listening(self, name: str) -> Generator[int]:
        """Yield the descriptor of a listening socket in the folder, for a process to inherit.

        Raises:
            DriverError: the folder is gone.
        """
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one, self.reaching(name) as path:
            Path(path).unlink(missing_ok=True)
            one.bind(path)
            one.listen(1)
            yield one.fileno()

    @contextmanager
    def reaching(self, name: str) -> Generator[str]:
        """Yield a short path to a socket in the folder.

        Paths of Unix sockets are limited to 107 bytes, so the path leads through an open
        descriptor of the folder.

        Raises:
            DriverError: the folder is gone.
        """
        try:
            fd = os.open(self.path, os.O_PATH | os.O_DIRECTORY)
        except OSError as error:
            raise DriverError(
                f"cannot open {self.path} ({error.strerror}); check the permissions"
            ) from error
        try:
            yield f"/proc/self/fd/{fd}/{name}"
        finally:
            os.close(fd)

    @property
    def _spec(self) -> Path:
        return self.path / _SPEC
