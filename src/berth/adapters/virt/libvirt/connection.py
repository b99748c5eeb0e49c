"""The connections to libvirtd: one for events, and one for each call in progress.

Every call blocks, so all calls run in threads. Events and lost connections arrive in a thread of
libvirt's own (see `binding.load`).

Calls do not share a connection. When several calls wait on one and libvirtd hangs, keepalive ends
only the call that reads. The others wait until libvirtd continues, and then libvirt's client (9.0)
uses freed memory and the process crashes (ADR 0019).
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from berth.adapters.virt.libvirt import binding, domain_xml, states
from berth.adapters.virt.libvirt.binding import Connect, Domain, ErrorCode
from berth.adapters.virt.libvirt.errors import (
    LibvirtRefusedError,
    LibvirtUnreachableError,
    libvirt_error_of,
)
from berth.adapters.virt.threads import ThreadRunner
from berth.domain.errors import DriverError
from berth.ports.virt import GuestEvent

_T = TypeVar("_T")
_OPEN_S = 20.0
# A short call without an answer fails after this many seconds. Saving a large guest takes minutes;
# keepalive detects most hanging connections much earlier.
_CALL_S = 300.0
_AGAIN_S = 1.0
# The maximum number of simultaneous long calls, including abandoned ones that have not ended yet.
_LONG_MAX = 64
# The maximum number of simultaneous attempts to connect, including abandoned ones.
_OPEN_MAX = 4
_KEEPALIVE_S = 5
_KEEPALIVE_COUNT = 3


class LibvirtConnection:
    """Calls libvirtd, and publishes its events.

    When the event connection is lost, all calls fail: libvirtd has ended or hangs. Keepalive alone
    would not fail calls that are still connecting.
    """

    def __init__(
        self,
        uri: str,
        calls_max: int,
        publish: Callable[[GuestEvent], None],
        returned: Callable[[], None],
    ) -> None:
        """Create the object; the first call opens the connections.

        Args:
            uri: the URI of libvirtd.
            calls_max: the maximum number of simultaneous calls, not counting long ones.
            publish: receives the events of guests.
            returned: called when libvirtd is connected again after a loss.
        """
        self._uri = uri
        # The limits are separate, so that calls that take long, or hang, do not block short ones.
        self._short, self._long = ThreadRunner(calls_max), ThreadRunner(_LONG_MAX)
        self._openers = ThreadRunner(_OPEN_MAX)
        self._publish = publish
        self._returned = returned
        self._connect: Connect | None = None
        # The event is set when the event connection is lost; each event connection has its own.
        self._lost = asyncio.Event()
        # The idle connections for calls, which threads take and return.
        self._idle: list[Connect] = []
        self._event_id = 0
        self._opening: asyncio.Task[Connect] | None = None
        self._reopening: asyncio.Task[None] | None = None
        self._is_closed = False

    async def call(self, work: Callable[[Connect], _T], *, is_long: bool = False) -> _T:
        """Run a function with a separate connection, in a thread.

        Args:
            work: the function; it may raise libvirt's errors.
            is_long: whether the call has no time limit, and a cancelled caller abandons it instead
                of waiting for its end.

        Raises:
            LibvirtRefusedError: libvirt rejected the operation, or the operation failed.
            LibvirtUnreachableError: libvirtd is unreachable or does not answer, or the connection
                to it was lost.
            DriverError: the driver is closed, or libvirt's binding is not installed.
        """
        await self._get()
        lost = self._lost

        def do() -> _T:
            return _guarded(lambda: self._do(work))

        calling = asyncio.ensure_future(self._long.run(do) if is_long else self._short.finish(do))
        calling.add_done_callback(retrieve_outcome)
        timeout_s = None if is_long else _CALL_S
        try:
            is_done = await _ends(calling, lost, timeout_s)
        except asyncio.CancelledError:
            # A short call is not abandoned: the next operation on the same guest must not overtake
            # it.
            if is_long:
                calling.cancel()
            else:
                await _ends(calling, lost, timeout_s)
            raise
        if not is_done and lost.is_set():
            raise LibvirtUnreachableError(
                f"the connection to libvirtd at {self._uri} was lost; check that libvirtd runs"
            )
        if not is_done:
            reason = (
                f"libvirtd at {self._uri} has not answered for {_CALL_S:.0f} s; see libvirtd's log"
            )
            raise LibvirtUnreachableError(reason) from TimeoutError()
        return await calling

    async def on(
        self, instance_uuid: str, work: Callable[[Domain], _T], *, is_long: bool = False
    ) -> _T:
        """Run a function with the domain of a guest, which must exist; see `call`."""
        return await self.call(
            lambda connect: work(connect.lookupByUUIDString(instance_uuid)), is_long=is_long
        )

    async def close(self) -> None:
        """Close all connections; the guests keep running."""
        self._is_closed = True
        if self._reopening is not None:
            self._reopening.cancel()
            await asyncio.wait({self._reopening})
        if self._opening is not None:
            await asyncio.wait({self._opening})
        connect, self._connect = self._connect, None
        if connect is not None:
            with contextlib.suppress(DriverError):
                await self._openers.run(lambda: _guarded(self._hang_up, connect, self._event_id))
        idle, self._idle = self._idle, []
        for one in idle:
            await self._openers.run(partial(_close, one))

    def _do(self, work: Callable[[Connect], _T]) -> _T:
        """Run a function with an idle or new connection; called in a thread."""
        connect = self._one_for_a_call()
        try:
            return work(connect)
        finally:
            # The connection is reused if it is alive and `close`, which runs in another thread, has
            # not been called.
            if self._is_closed or connect.isAlive() != 1:
                _close(connect)
            else:
                self._idle.append(connect)

    def _one_for_a_call(self) -> Connect:
        while True:
            try:
                connect = self._idle.pop()
            except IndexError:
                return self._open_one()
            if connect.isAlive() == 1:
                return connect
            _close(connect)

    def _open_one(self) -> Connect:
        connect = binding.load().open(self._uri)
        connect.setKeepAlive(_KEEPALIVE_S, _KEEPALIVE_COUNT)
        return connect

    async def _get(self) -> Connect:
        if self._is_closed:
            raise DriverError("the driver is closed, because this agent is stopping")
        # `isAlive` only checks the socket, which keepalive closes when libvirtd hangs.
        if self._connect is not None and self._connect.isAlive() == 1:
            return self._connect
        if self._opening is None or self._opening.done():
            self._opening = asyncio.ensure_future(self._open_in_time())
            self._opening.add_done_callback(retrieve_outcome)
        # All calls that arrive meanwhile share this attempt. It is shielded, so that the
        # cancellation of one of them does not end it.
        return await asyncio.shield(self._opening)

    async def _open_in_time(self) -> Connect:
        self._connect = None
        # Each event connection has its own event, so that callbacks of an old one cannot fail new
        # calls.
        lost = self._lost = asyncio.Event()
        loop, is_late = asyncio.get_running_loop(), threading.Event()
        try:
            async with asyncio.timeout(_OPEN_S):
                self._connect = await self._openers.run(lambda: self._open(loop, lost, is_late))
        except TimeoutError as error:
            # The thread cannot be cancelled, so it closes the connection if it succeeds too late.
            is_late.set()
            reason = (
                f"libvirtd at {self._uri} did not answer within {_OPEN_S:.0f} s; check that it "
                "runs and that virt.uri is correct"
            )
            raise LibvirtUnreachableError(reason) from error
        return self._connect

    def _open(
        self, loop: asyncio.AbstractEventLoop, lost: asyncio.Event, is_late: threading.Event
    ) -> Connect:
        def on_event(_: Connect, domain: Domain, event: int, detail: int, __: object) -> None:
            name, hint = domain.name(), states.hint_of(event, detail)
            if hint is not None and name.startswith(domain_xml.NAME_PREFIX):
                guest_event = GuestEvent(domain.UUIDString(), *hint)
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(self._publish, guest_event)

        def on_close(_: Connect, __: int, ___: object) -> None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._reopen, lost)

        def made(_: None) -> Connect:
            connect = self._open_one()
            connect.registerCloseCallback(on_close, None)
            event_id = connect.domainEventRegisterAny(None, binding.LIFECYCLE, on_event, None)
            if is_late.is_set():
                self._hang_up(connect, event_id)  # the caller has given up
                raise LibvirtUnreachableError(f"libvirtd at {self._uri} answered too late")
            self._event_id = event_id
            return connect

        return _guarded(made, None)

    def _hang_up(self, connect: Connect, event_id: int) -> None:
        connect.unregisterCloseCallback()
        connect.domainEventDeregisterAny(event_id)
        connect.close()

    def _reopen(self, lost: asyncio.Event) -> None:
        """Fail the calls in progress, and reconnect for events, however long libvirtd is down."""
        lost.set()
        if not self._is_closed and (self._reopening is None or self._reopening.done()):
            self._reopening = asyncio.ensure_future(self._try_again())

    async def _try_again(self) -> None:
        while True:
            with contextlib.suppress(DriverError):
                await self._get()
                self._returned()
                return
            await asyncio.sleep(_AGAIN_S)


def _close(connect: Connect) -> None:
    """Close a connection, ignoring errors, since it may already be lost."""
    with contextlib.suppress(binding.load().libvirtError):
        connect.close()


async def _ends(calling: asyncio.Task[_T], lost: asyncio.Event, timeout_s: float | None) -> bool:
    """Wait for a call until it ends, the connection is lost, or the timeout has passed.

    Returns:
        Whether the call has ended.
    """
    losing = asyncio.ensure_future(lost.wait())
    first = asyncio.FIRST_COMPLETED
    try:
        await asyncio.wait({calling, losing}, timeout=timeout_s, return_when=first)
    finally:
        losing.cancel()
    return calling.done()


def _guarded(work: Callable[..., _T], *given: object) -> _T:
    try:
        return work(*given)
    except binding.load().libvirtError as error:
        raise libvirt_error_of(error) from error


def retrieve_outcome(task: asyncio.Task[_T]) -> None:
    """Retrieve the outcome of an abandoned task, so that asyncio does not log its error."""
    if not task.cancelled():
        task.exception()


def is_missing_domain(error: LibvirtRefusedError) -> bool:
    """Return whether an error means that the domain does not exist."""
    return error.code == ErrorCode.NO_DOMAIN


def none_if_refused(code: ErrorCode, work: Callable[[Domain], _T], domain: Domain) -> _T | None:
    """Run a function with a domain; return its result, or None on an error with the given code."""
    try:
        return work(domain)
    except binding.load().libvirtError as error:
        if error.get_error_code() != code:
            raise
        return None
