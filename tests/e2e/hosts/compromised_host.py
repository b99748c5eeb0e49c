"""A host that an attacker controls: a client with its valid key that sends arbitrary frames."""

import ssl
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final

import msgspec
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from berth.adapters.bus.message_codec import error_of
from berth.adapters.gateway import wire
from berth.adapters.gateway.host_key import HostKeyFile
from berth.adapters.gateway.websocket_server import PATH
from berth.ports.gateway import HostView
from tests.e2e.hosts.separate_cloud import SeparateCloud

WAIT_S: Final = 30.0


class CompromisedHost:
    """A session with the key of a host, over TLS to a real API.

    Args:
        cloud: the cloud that is attacked.
        host: the host whose key is used.
        claims: the host that the proof names; by default the same.
        proof: a recorded proof, which is sent instead of a new one.
        is_silent: whether it connects only, and proves nothing.
    """

    def __init__(
        self,
        cloud: SeparateCloud,
        host: str,
        *,
        claims: str | None = None,
        proof: bytes | None = None,
        is_silent: bool = False,
    ) -> None:
        context = ssl.create_default_context(cafile=str(cloud.certificate))
        self.stack = ExitStack()
        opening = connect(
            cloud.url.replace("https", "wss") + PATH,
            ssl=context,
            compression=None,
            max_size=wire.CONTROL_FRAME_BYTES_MAX,
            ping_interval=None,
            proxy=None,
            close_timeout=1,
        )
        self.connection: ClientConnection = self.stack.enter_context(opening)
        self.number = 0
        hello = wire.control_frame_of(self._receive())
        assert isinstance(hello, wire.Hello)
        name, key = claims or host, HostKeyFile(cloud.folder / host / "agent.key")
        signature = key.sign(wire.proof_text(name, "evil", hello.nonce))
        made = wire.Proof(wire.PROTOCOL, name, "evil", signature, deletes_disks=True)
        self.proof = proof or wire.encode(made)
        if not is_silent:
            self.send(self.proof)

    def send(self, frame: object) -> None:
        """Send a frame, or bytes that need not be one."""
        self.connection.send(frame if isinstance(frame, bytes) else wire.encode(frame))

    def call(self, method: str, *args: object) -> Any:  # noqa: ANN401 - the result of any method
        """Call a method, and return its result or raise its error."""
        return self.call_raw(method, wire.raw(args), wire.METHODS[method].value)

    def call_raw(
        self,
        method: str,
        args: msgspec.Raw,
        kind: Any = None,  # noqa: ANN401 - any type form
    ) -> Any:  # noqa: ANN401 - the result of any method
        """Call a method with arguments of any type."""
        self.number += 1
        self.send(wire.Call(self.number, method, args))
        reply = self.expect(lambda one: isinstance(one, wire.Reply) and one.number == self.number)
        assert isinstance(reply, wire.Reply)
        if reply.failure is not None:
            raise error_of(reply.failure)
        return msgspec.msgpack.decode(reply.value, type=kind)

    def expect(self, wanted: Callable[[object], bool]) -> object:
        """Return the next frame of a kind."""
        while True:
            frame = wire.control_frame_of(self._receive())
            if wanted(frame):
                return frame

    def first_view(self) -> HostView:
        """Watch, and return the complete view of the host."""
        self.send(wire.Watch())
        found = self.expect(lambda one: isinstance(one, wire.View) and one.view.is_complete)
        assert isinstance(found, wire.View)
        return found.view

    def close_code(self) -> int:
        """Wait until the control plane ends the session, and return its code."""
        try:
            while True:
                self._receive()
        except ConnectionClosed:
            code = self.connection.close_code
            self.close()
            assert code is not None
            return code

    def close(self) -> None:
        """Leave."""
        self.stack.close()

    def _receive(self) -> bytes:
        data = self.connection.recv(timeout=WAIT_S)
        assert isinstance(data, bytes)
        return data
