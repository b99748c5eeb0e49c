"""Types and constants for the part of libvirt's Python binding that Berth uses.

`load` imports the binding at the first use. The constants are part of libvirt's stable API.
"""

import importlib
import threading
from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import cache
from typing import Protocol, cast

from berth.domain.errors import DriverError

LIVE = 1
"""Flag: the running guest."""
CONFIG = 2
"""Flag: the persistent definition, which applies from the next start on."""
ELEMENT = 2
"""Kind of metadata: an element in a custom namespace."""
LIFECYCLE = 0
"""Kind of event: a guest starts, stops, is paused or continues."""
ACPI_BUTTON = 1
SAVE_RUNNING = 2
"""Flag: a saved guest runs when it is restored, even if it was paused."""
UNDEFINE_ALL = 1 | 2 | 4
"""Flags: also delete the saved memory, the metadata of snapshots, and the firmware variables."""
OPEN_GRAPHICS_SKIPAUTH = 1
XML_INACTIVE = 2
XML_MIGRATABLE = 8
DOMAIN_PERSISTENT = 1
JOB_COMPLETED = 1
"""Flag: the statistics of the last job that has ended, instead of the current one."""

FROM_RPC = 7
"""Error domain: the RPC layer between libvirt's client and its daemon."""


class MigrateFlag(IntEnum):
    """Flags of a live migration."""

    LIVE = 1
    PEER2PEER = 2
    PERSIST_DEST = 8
    UNDEFINE_SOURCE = 16
    PAUSED = 32
    NON_SHARED_DISK = 64
    ABORT_ON_ERROR = 4096


class ErrorCode(IntEnum):
    """The error codes of libvirt that Berth handles."""

    INTERNAL = 1
    NO_MEMORY = 2
    NO_SUPPORT = 3
    NO_CONNECT = 5
    INVALID_ARG = 8
    XML_ERROR = 27
    SYSTEM_ERROR = 38
    RPC = 39
    NO_DOMAIN = 42
    OPERATION_INVALID = 55
    CONFIG_UNSUPPORTED = 67
    OPERATION_TIMEOUT = 68
    NO_DOMAIN_METADATA = 80
    MIGRATE_UNSAFE = 81
    OPERATION_ABORTED = 78


class VirtError(Exception):
    """The interface of `libvirtError`; this class itself is never raised."""

    def get_error_domain(self) -> int | None:
        """Return the part of libvirt that raised the error, such as `FROM_RPC`; None if unknown."""
        raise NotImplementedError

    def get_error_code(self) -> int:
        """Return libvirt's error code, such as one of `ErrorCode`."""
        raise NotImplementedError

    def get_error_message(self) -> str:
        """Return the error message."""
        raise NotImplementedError


class Domain(Protocol):
    """A guest in libvirt's binding; every method blocks."""

    # The methods have the names of libvirt's API.
    # ruff: noqa: N802, N803

    def UUIDString(self) -> str: ...  # noqa: D102
    def name(self) -> str: ...  # noqa: D102
    def state(self) -> list[int]: ...  # noqa: D102
    def isActive(self) -> int: ...  # noqa: D102
    def isPersistent(self) -> int: ...  # noqa: D102
    def hasManagedSaveImage(self) -> int: ...  # noqa: D102
    def XMLDesc(self, flags: int) -> str: ...  # noqa: D102
    def metadata(self, type: int, uri: str, flags: int) -> str: ...  # noqa: A002, D102
    def setMetadata(  # noqa: D102
        self,
        type: int,  # noqa: A002
        metadata: str,
        key: str,
        uri: str,
        flags: int,
    ) -> int: ...
    def info(self) -> list[int]: ...  # noqa: D102
    def vcpus(self) -> tuple[list[tuple[int, int, int, int]], list[tuple[bool, ...]]]: ...  # noqa: D102
    def openGraphicsFD(self, idx: int, flags: int) -> int: ...  # noqa: D102
    def memoryStats(self) -> dict[str, int]: ...  # noqa: D102
    def blockStats(self, path: str) -> tuple[int, int, int, int, int]: ...  # noqa: D102
    def create(self) -> int: ...  # noqa: D102
    def destroy(self) -> int: ...  # noqa: D102
    def undefineFlags(self, flags: int) -> int: ...  # noqa: D102
    def shutdownFlags(self, flags: int) -> int: ...  # noqa: D102
    def reset(self) -> int: ...  # noqa: D102
    def suspend(self) -> int: ...  # noqa: D102
    def resume(self) -> int: ...  # noqa: D102
    def managedSave(self, flags: int) -> int: ...  # noqa: D102
    def managedSaveRemove(self) -> int: ...  # noqa: D102
    def migrateToURI3(self, dconnuri: str, params: Mapping[str, object], flags: int) -> int: ...  # noqa: D102
    def jobInfo(self) -> list[int]: ...  # noqa: D102
    def backupBegin(self, backupXML: str, checkpointXML: str | None, flags: int) -> int: ...  # noqa: D102
    def jobStats(self, flags: int) -> dict[str, object]: ...  # noqa: D102
    def abortJob(self) -> int: ...  # noqa: D102


OnEvent = Callable[["Connect", Domain, int, int, object], None]


class Connect(Protocol):
    """A connection to libvirtd in libvirt's binding; every method blocks."""

    def close(self) -> int: ...  # noqa: D102
    def isAlive(self) -> int: ...  # noqa: D102
    def setKeepAlive(self, interval: int, count: int) -> int: ...  # noqa: D102
    def getType(self) -> str: ...  # noqa: D102
    def getVersion(self) -> int: ...  # noqa: D102
    def getCapabilities(self) -> str: ...  # noqa: D102
    def getDomainCapabilities(  # noqa: D102
        self, emulatorbin: str | None, arch: str | None, machine: str | None, virttype: str | None
    ) -> str: ...
    def listAllDomains(self, flags: int = 0) -> list[Domain]: ...  # noqa: D102
    def lookupByUUIDString(self, uuidstr: str) -> Domain: ...  # noqa: D102
    def defineXML(self, xml: str) -> Domain: ...  # noqa: D102
    def registerCloseCallback(  # noqa: D102
        self, cb: Callable[["Connect", int, object], None], opaque: object
    ) -> int: ...
    def unregisterCloseCallback(self) -> int: ...  # noqa: D102
    def domainEventRegisterAny(  # noqa: D102
        self, dom: Domain | None, eventID: int, cb: OnEvent, opaque: object
    ) -> int: ...
    def domainEventDeregisterAny(self, callbackID: int) -> int: ...  # noqa: D102


class Binding(Protocol):
    """The module `libvirt`."""

    @property
    def libvirtError(self) -> type[VirtError]: ...  # noqa: D102
    def open(self, name: str) -> Connect: ...  # noqa: D102
    def registerErrorHandler(self, f: Callable[[object, object], None], ctx: object) -> None: ...  # noqa: D102
    def virEventRegisterDefaultImpl(self) -> int: ...  # noqa: D102
    def virEventRunDefaultImpl(self) -> int: ...  # noqa: D102


_LOADING = threading.Lock()


def load() -> Binding:
    """Import the binding, and start the thread that receives events and detects lost connections.

    Raises:
        DriverError: the binding is not installed.
    """
    with _LOADING:  # `cache` alone would let two threads start two event loops
        return _load()


@cache
def _load() -> Binding:
    try:
        found = importlib.import_module("libvirt")
    except ImportError as error:
        raise DriverError(
            f"the libvirt driver cannot import libvirt's Python binding ({error}); install "
            "libvirt-dev, pkg-config and a compiler, then run pip install "
            "'berth-scheduler[libvirt]'"
        ) from error
    binding = cast("Binding", found)
    # By default the binding raises every error and also prints it to standard error.
    binding.registerErrorHandler(_ignore, None)
    binding.virEventRegisterDefaultImpl()
    threading.Thread(target=_hear, args=(binding,), name="libvirt-events", daemon=True).start()
    return binding


def _ignore(_: object, __: object) -> None:
    """Ignore an error, because the binding also raises it."""


def _hear(binding: Binding) -> None:
    while True:
        binding.virEventRunDefaultImpl()
