"""A QMP client: the control connection to one QEMU process.

The package qemu.qmp cannot send file descriptors, which saving memory and NBD need.
"""

import asyncio
import itertools
import socket
from collections.abc import Callable, Mapping
from typing import cast

import msgspec

from berth.domain.errors import DriverError

Message = Mapping[str, object]

_READ_BYTES = 65_536
_LINE_BYTES_MAX = 16 * 1024 * 1024


class QmpError(DriverError):
    """QEMU rejected a command, or does not answer."""


class QmpRefusedError(QmpError):
    """QEMU no longer accepts clients, because it is shutting down."""


class Qmp:
    """A QMP connection; `on_event` receives every event, and None at the end of the connection."""

    def __init__(self, on_event: Callable[[Message | None], None]) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.setblocking(False)  # noqa: FBT003 - the socket's own method
        self._on_event = on_event
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Message]] = {}
        self._greeted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reader: asyncio.Task[None] | None = None
        self._sending = asyncio.Lock()
        self.is_closed = False

    async def connect(self, path: str, *, timeout_s: float) -> None:
        """Connect, and wait until QEMU accepts commands.

        QEMU greets only one client of a socket at a time.

        Raises:
            QmpRefusedError: QEMU is shutting down.
            QmpError: QEMU does not answer, or another client is connected.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_s):
                await loop.sock_connect(self._socket, path)
                self._reader = asyncio.create_task(self._read())
                await self._greeted
                await self.execute("qmp_capabilities", timeout_s=timeout_s)
        except ConnectionRefusedError as error:
            await self.close()
            raise QmpRefusedError("QEMU is shutting down") from error
        except (OSError, TimeoutError) as error:
            await self.close()
            raise QmpError(
                f"QEMU does not answer ({str(error) or 'it sent no greeting'})"
            ) from error
        except BaseException:
            await self.close()
            raise

    async def execute(
        self,
        command: str,
        arguments: Message | None = None,
        *,
        fd: int | None = None,
        timeout_s: float = 30.0,
    ) -> object:
        """Execute a command, and return its result.

        Args:
            command: the name of the command.
            arguments: its arguments; None for none.
            fd: a descriptor to pass along, or None.
            timeout_s: seconds to wait for the result.

        Raises:
            QmpError: QEMU rejected the command, the connection ended, or the timeout passed.
        """
        if self.is_closed:
            raise QmpError(f"cannot execute {command}: the connection to QEMU has ended")
        number = next(self._numbers)
        line = msgspec.json.encode(
            {"execute": command, "id": number, "arguments": dict(arguments or {})}
        )
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        try:
            async with asyncio.timeout(timeout_s):
                await self._send(line + b"\n", fd)
                message = await answer
        except TimeoutError as error:  # before OSError, of which it is a subclass
            reason = f"QEMU did not answer within {timeout_s:g} s"
            raise QmpError(f"cannot execute {command}: {reason}") from error
        except OSError as error:
            reason = f"the connection to QEMU broke ({error.strerror or error})"
            raise QmpError(f"cannot execute {command}: {reason}") from error
        finally:
            self._answers.pop(number, None)
        if (problem := message.get("error")) is not None:
            raise QmpError(f"QEMU rejected {command}: {cast('Message', problem).get('desc')}")
        return message.get("return")

    async def close(self) -> None:
        """Disconnect; QEMU keeps running and greets the next client."""
        self.is_closed = True
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        if not self._greeted.cancel() and not self._greeted.cancelled():
            self._greeted.exception()  # retrieved, so that asyncio does not log it
        self._socket.close()

    async def _send(self, line: bytes, fd: int | None) -> None:
        async with self._sending:
            if fd is not None:
                # The descriptor is sent with the first byte alone, since one byte is sent either
                # completely or not at all.
                socket.send_fds(self._socket, [line[:1]], [fd])
                line = line[1:]
            await asyncio.get_running_loop().sock_sendall(self._socket, line)

    async def _read(self) -> None:
        try:
            await self._read_lines()
        except (OSError, msgspec.DecodeError):
            pass
        finally:
            self.is_closed = True
            gone = QmpError("the connection to QEMU has ended")
            if not self._greeted.done():
                self._greeted.set_exception(gone)
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(gone)
        self._on_event(None)

    async def _read_lines(self) -> None:
        loop, rest = asyncio.get_running_loop(), b""
        while some := await loop.sock_recv(self._socket, _READ_BYTES):
            *lines, rest = (rest + some).split(b"\n")
            for line in lines:
                self._take(msgspec.json.decode(line, type=dict[str, object]))
            if len(rest) > _LINE_BYTES_MAX:
                return

    def _take(self, message: Message) -> None:
        if "QMP" in message:
            if not self._greeted.done():
                self._greeted.set_result(None)
        elif "event" in message:
            self._on_event(message)
        else:
            answer = self._answers.get(cast("int", message.get("id")))
            if answer is not None and not answer.done():
                answer.set_result(message)
