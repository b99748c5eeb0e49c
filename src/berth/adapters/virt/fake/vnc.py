"""The VNC server of a fake guest, which shows a black screen."""

import asyncio
import struct
from collections.abc import Callable, Generator
from typing import Final

from berth.domain.errors import DriverError

WIDTH: Final = 160
HEIGHT: Final = 120
_VERSION: Final = b"RFB 003.008\n"
_NO_PASSWORD: Final = 1
_OK: Final = bytes(4)
_CHECK_S: Final = 0.1
# 32 bits a pixel of depth 24, little-endian, with 8 bits of red, green and blue each.
_PIXELS: Final = struct.pack(">BBBBHHHBBB3x", 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)
# The size in bytes of each message of a client after its type, or of the part that has the length
# of the rest (RFC 6143, section 7.5).
_SET_PIXELS: Final = 0
_SET_ENCODINGS: Final = 2
_UPDATE_REQUEST: Final = 3
_CUT_TEXT: Final = 6
_SIZES: Final = {_SET_PIXELS: 19, _SET_ENCODINGS: 3, _UPDATE_REQUEST: 9, 4: 7, 5: 5, _CUT_TEXT: 7}
_TEXT_BYTES_MAX: Final = 1024 * 1024


class FakeVnc:
    """A connection to the VNC server of a fake guest; see the port `ByteStream`.

    The server speaks version 3.8 of the protocol (RFC 6143). It answers each request for the whole
    screen with black pixels and ignores all input.

    Args:
        name: the name of the screen.
        is_alive: returns whether the guest still runs on its machine.
    """

    def __init__(self, name: str, is_alive: Callable[[], bool]) -> None:
        self._name = name.encode()
        self._is_alive = is_alive
        self._is_closed = False
        self._out = bytearray()
        self._in = bytearray()
        self._came = asyncio.Event()
        self._server = self._serve()
        self._wants = next(self._server)

    async def read(self, bytes_max: int) -> bytes:
        """See `ByteStream.read`."""
        while not self._out:
            if self._is_closed or not self._is_alive():
                return b""
            self._came.clear()
            try:
                async with asyncio.timeout(_CHECK_S):
                    await self._came.wait()
            except TimeoutError:
                continue  # the guest may have stopped
        some = bytes(self._out[:bytes_max])
        del self._out[:bytes_max]
        return some

    async def write(self, data: bytes) -> None:
        """See `ByteStream.write`."""
        if self._is_closed or not self._is_alive():
            raise DriverError("the VNC connection has ended")
        self._in += data
        while len(self._in) >= self._wants:
            message = bytes(self._in[: self._wants])
            del self._in[: self._wants]
            try:
                self._wants = self._server.send(message)
            except StopIteration:
                self.close()
                return
        self._came.set()

    def close(self) -> None:
        """See `ByteStream.close`."""
        self._is_closed = True
        self._came.set()

    def _serve(self) -> Generator[int, bytes]:
        """Serve the client: yield the number of bytes that are needed next; end on an error."""
        self._out += _VERSION
        if (yield len(_VERSION)) != _VERSION:
            return
        self._out += bytes((1, _NO_PASSWORD))
        if (yield 1)[0] != _NO_PASSWORD:
            return
        self._out += _OK
        yield 1  # whether the client shares the screen
        size = struct.pack(">HH", WIDTH, HEIGHT)
        self._out += size + _PIXELS + struct.pack(">I", len(self._name)) + self._name
        pixel_bytes = 4
        while (kind := (yield 1)[0]) in _SIZES:
            message = yield _SIZES[kind]
            if kind == _SET_PIXELS:
                pixel_bytes = message[3] // 8
            elif kind == _SET_ENCODINGS:
                yield 4 * struct.unpack(">xH", message)[0]
            elif kind == _CUT_TEXT:
                length = struct.unpack(">3xI", message)[0]
                if length > _TEXT_BYTES_MAX:
                    return
                yield length
            elif kind == _UPDATE_REQUEST and not message[0]:
                head = struct.pack(">BxHHHHHi", 0, 1, 0, 0, WIDTH, HEIGHT, 0)
                self._out += head + bytes(WIDTH * HEIGHT * pixel_bytes)
