"""The clock, random ids, logging and limits of a process, and a sink for metrics."""

import asyncio
import ctypes
import gc
import os
import resource
import time
from contextlib import suppress

import structlog

from berth.domain.errors import BerthError
from berth.ports.telemetry import Measure

_UUID_BYTES = 16
# The variant digit of a UUID, by the random digit that it replaces. Its upper two bits are 10, and
# its lower two bits stay random.
_VARIANTS = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}
_BLOCK_BYTES = 4096
_CAUSE_MAX = 300
# Parameters of glibc's `mallopt`.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


class SystemClock:
    """The system clock; see the port `Clock`."""

    def now_s(self) -> float:
        """See `Clock.now_s`."""
        return time.time()

    def ticks_ns(self) -> int:
        """See `Clock.ticks_ns`."""
        return time.monotonic_ns()

    async def sleep(self, seconds: float) -> None:
        """See `Clock.sleep`."""
        await asyncio.sleep(seconds)


class RandomIds:
    """Random identifiers; see the port `Ids`.

    Random bytes are read from the system in blocks, because each read releases the interpreter
    lock, which costs more than generating the bytes.
    """

    def __init__(self) -> None:
        self._block = b""
        self._used = 0

    def uuid(self) -> str:
        """See `Ids.uuid`."""
        if self._used + _UUID_BYTES > len(self._block):
            self._block, self._used = os.urandom(_BLOCK_BYTES), 0
        digits = self._block[self._used : self._used + _UUID_BYTES].hex()
        self._used += _UUID_BYTES
        variant = _VARIANTS[digits[16]]
        return (
            f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
        )

    def request_id(self) -> str:
        """See `Ids.request_id`."""
        return f"req-{self.uuid()}"


class LogTelemetry:
    """Writes events and failures to the structured log; see the port `Telemetry`.

    Args:
        part: the part of Berth that the process runs (`scheduler`), a field of each log entry.
    """

    def __init__(self, part: str) -> None:
        self._log: structlog.stdlib.BoundLogger = structlog.get_logger().bind(part=part)

    def event(self, name: str, **fields: object) -> None:
        """See `Telemetry.event`."""
        self._log.info(name, **fields)

    def warning(self, name: str, **fields: object) -> None:
        """See `Telemetry.warning`."""
        self._log.warning(name, **fields)

    def failure(self, name: str, error: BaseException, **fields: object) -> None:
        """See `Telemetry.failure`. Errors other than a `BerthError` are logged with a traceback."""
        if isinstance(error, BerthError):
            if error.__cause__ is not None:
                fields = {"cause": f"{error.__cause__!r}"[:_CAUSE_MAX], **fields}
            self._log.error(name, error=str(error), **fields)
        else:
            self._log.error(name, error=str(error), exc_info=error, **fields)


class NoMetrics:
    """Discards all metrics; see the port `Metrics`."""

    def add(self, measure: Measure, labels: tuple[str, ...] = (), amount: float = 1.0) -> None:
        """See `Metrics.add`."""

    def observe(self, measure: Measure, value: float, labels: tuple[str, ...] = ()) -> None:
        """See `Metrics.observe`."""


def keep_freed_memory() -> None:
    """Make glibc keep freed memory instead of returning it to the system.

    Each decision over a large fleet allocates and frees arrays of several hundred kilobytes. By
    default glibc maps new pages for each of them, and the page faults cost more than computing the
    array. Other C libraries are left unchanged.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(_M_TRIM_THRESHOLD, 256 * 1024 * 1024)
    mallopt(_M_MMAP_THRESHOLD, 32 * 1024 * 1024)


def spare_the_collector() -> None:
    """Exclude all present objects from garbage collection, and make full collections less frequent.

    The host table and its records live as long as the process, and each collection that traverses
    them stops the process for hundreds of milliseconds.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


def raise_file_limit() -> int:
    """Raise this process's limit on open files as far as the system permits; return the limit.

    Each connected agent is one open file, and the usual limit of 1,024 exists only for programs
    that use `select`.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # The hard limit may be higher than what the system accepts as the soft one.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
