"""Export of the disks of stopped guests to other hosts over NBD, by QEMU's storage daemon."""

import asyncio
import contextlib
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlencode, urlsplit

import msgspec

from berth.adapters.virt import processes
from berth.adapters.virt.guest_folder import GuestFolder
from berth.adapters.virt.processes import HostProcess
from berth.domain.errors import DriverError

SCHEME = "nbd"
NO_DISKS = "nbd:?disks="
"""The address for a guest that has no disks."""
BEGUN = "nbd:"
"""The address that a driver records before it starts an export and learns the actual address."""
_PROGRAM = "qemu-storage-daemon"
_START_S = 10.0
_END_S = 5.0
_GREETING: Final = b"NBDMAGIC"
_WITHIN_S: Final = 10.0


async def wait_for_server(host: str, port: int, *, within_s: float = _WITHIN_S) -> None:
    """Connect to an NBD server, wait for its greeting and disconnect.

    Raises:
        DriverError: there is no NBD server, or it does not greet in time.
    """
    where = f"{host}:{port}"
    try:
        async with asyncio.timeout(within_s):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                found = await reader.readexactly(len(_GREETING))
            finally:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
    except TimeoutError as error:
        raise DriverError(
            f"the NBD server at {where} sent no greeting within {within_s:g} s; check that host"
        ) from error
    except (OSError, asyncio.IncompleteReadError) as error:
        raise DriverError(
            f"cannot connect to an NBD server at {where} ({error}); check the network"
        ) from error
    if found != _GREETING:
        raise DriverError(f"the server at {where} is not an NBD server; check what listens there")


async def offer(folder: GuestFolder, names: Sequence[str], host: str) -> str:
    """Start a daemon that exports the disks read-only, and return its address.

    For a guest without disks no daemon is started, and the address says that there are none.

    Raises:
        DriverError: the daemon cannot be started, or does not answer in time.
    """
    if not names:
        return NO_DISKS
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The daemon inherits a listening socket, so the system chooses the port, and a client never
    # connects too early.
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        listening.bind((host, 0))
        listening.listen(8)
        (fd,) = processes.inherited_fds([listening.fileno()])
        argv = [_PROGRAM, "--nbd-server", f"addr.type=fd,addr.str={fd}", *_exports(folder, names)]
        try:
            process = processes.start(argv, fds=[listening.fileno()], output=folder.errors)
        except OSError as error:
            raise DriverError(
                f"{_PROGRAM} cannot be started ({error.strerror}); check that it is installed"
            ) from error
        port = int(listening.getsockname()[1])
    try:
        await wait_for_server(host, port, within_s=_START_S)
    except DriverError as error:
        process.kill()
        await process.wait(_END_S)
        raise DriverError(
            f"{_PROGRAM} cannot export disks: {folder.last_error() or error}"
        ) from error
    bracketed = f"[{host}]" if ":" in host else host
    return f"{SCHEME}://{bracketed}:{port}/?{urlencode({'disks': ','.join(names)})}"


def is_offered(folder: GuestFolder, names: Sequence[str], address: str) -> bool:
    """Return whether the export with a recorded address still exists.

    Args:
        folder: the guest's folder.
        names: the names of the guest's disks.
        address: the recorded address; empty if none is recorded.
    """
    if address in ("", BEGUN) or urlsplit(address).scheme != SCHEME:
        return False
    return not names or offering_process(folder) is not None


def offering_process(folder: GuestFolder) -> HostProcess | None:
    """Return the daemon that exports the disks in a folder, or None if there is none."""

    def of_folder(words: Sequence[str]) -> str | None:
        is_daemon = Path(words[0]).name == _PROGRAM
        return "it" if is_daemon and any(str(folder.path) in word for word in words) else None

    return processes.find(of_folder).get("it")


async def withdraw(folder: GuestFolder) -> None:
    """End the export of a folder's disks, if any.

    Raises:
        DriverError: the daemon does not end.
    """
    if (process := offering_process(folder)) is not None:
        process.kill()
        if not await process.wait(_END_S):
            raise DriverError(
                f"process {process.pid}, which exports the disks in {folder.path}, is still "
                f"running {_END_S:g} s after SIGKILL; it may be waiting for a disk that hangs"
            )


def _exports(folder: GuestFolder, names: Sequence[str]) -> list[str]:
    words: list[str] = []
    for name in names:
        file = {"driver": "file", "filename": str(folder.disk(name))}
        node = {"driver": "qcow2", "node-name": name, "read-only": True, "file": file}
        words += ["--blockdev", msgspec.json.encode(node).decode()]
        words += ["--export", f"type=nbd,id={name},node-name={name},name={name},writable=off"]
    return words
