"""libvirt's binding, as far as it is used here, with types; it is imported when it is needed.

The numbers are libvirt's, which never change their meaning.
"""

import importlib
import threading
from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import cache
from typing import Protocol, cast

from berth.domain.errors import DriverError

LIVE = 1
"""Flag: of the guest that runs."""
CONFIG = 2
"""Flag: of the guest as it starts next."""
ELEMENT = 2
"""Kind of metadata: an element in a namespace of one's own."""
LIFECYCLE = 0
"""Kind of event: a guest begins, ends, stands still or goes on."""
ACPI_BUTTON = 1
SAVE_RUNNING = 2
"""What is saved runs when it is restored, whether it stood still or not."""
UNDEFINE_ALL = 1 | 2 | 4
"""With a saved memory, with the metadata of snapshots, and with the firmware's variables."""
XML_INACTIVE = 2
XML_MIGRATABLE = 8
DOMAIN_PERSISTENT = 1

FROM_RPC = 7
"""Domain of errors: the part of libvirt that carries calls to its daemon."""


class MigrateFlag(IntEnum):
    """How a guest is moved."""

    LIVE = 1
    PEER2PEER = 2
    PERSIST_DEST = 8
    UNDEFINE_SOURCE = 16
    PAUSED = 32
    NON_SHARED_DISK = 64
    ABORT_ON_ERROR = 4096


class ErrorCode(IntEnum):
    """What libvirt complains about, as far as something follows from it."""

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
    """What `libvirtError` looks like; never raised."""

    def get_error_domain(self) -> int | None:
        """Return the part of libvirt that complains."""
        raise NotImplementedError

    def get_error_code(self) -> int:
        """Return the code."""
        raise NotImplementedError

    def get_error_message(self) -> str:
        """Return the message."""
        raise NotImplementedError


class Domain(Protocol):
    """A guest, as libvirt's binding has it; every method blocks."""

    # libvirt's own names.
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
    def abortJob(self) -> int: ...  # noqa: D102


OnEvent = Callable[["Connect", Domain, int, int, object], None]


class Connect(Protocol):
    """A connection to libvirtd, as libvirt's binding has it; every method blocks."""

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
    """Import the binding, and start the thread that hears of events and lost connections.

    Raises:
        DriverError: it is not installed.
    """
    with _LOADING:  # threads may come at once, and the events have one thread
        return _load()


@cache
def _load() -> Binding:
    try:
        found = importlib.import_module("libvirt")
    except ImportError as error:
        raise DriverError(
            "the libvirt driver needs libvirt's binding: pip install 'berth[libvirt]', with "
            f"libvirt-dev, pkg-config and a compiler ({error})"
        ) from error
    binding = cast("Binding", found)
    # Errors are raised too; without this they are written to standard error as well.
    binding.registerErrorHandler(_ignore, None)
    binding.virEventRegisterDefaultImpl()
    threading.Thread(target=_hear, args=(binding,), name="libvirt-events", daemon=True).start()
    return binding


def _ignore(_: object, __: object) -> None:
    """Do nothing with an error."""


def _hear(binding: Binding) -> None:
    while True:
        binding.virEventRunDefaultImpl()
