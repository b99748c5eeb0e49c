"""An HTTP server for ASGI applications within a process that also does other work."""

import asyncio
import signal
import socket
from collections.abc import Generator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from berth.adapters.http_protocol import LimitedProtocol
from berth.domain.errors import InvalidInputError

_GRACE_S = 5
_BACKLOG = 2048


def listening(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 chooses a free port.

    Raises:
        InvalidInputError: the address cannot be used, for example because it is in use or does not
            belong to this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        reason = f"cannot listen on {host}:{port} ({error.strerror}); choose another address"
        raise InvalidInputError("listen", reason) from error


async def serve_http(app: ASGIApp, listener: socket.socket) -> None:
    """Serve an application until SIGINT or SIGTERM; requests in progress have 5 s to end.

    Args:
        app: the application.
        listener: a listening socket; see `listening`.
    """
    await _Server(config_of(app)).serve(sockets=[listener])


async def serve_beside(app: ASGIApp, listener: socket.socket) -> None:
    """Serve an application until the call is cancelled, without handling signals.

    Args:
        app: the application.
        listener: a listening socket, which is closed at the end; see `listening`.
    """
    with listener:
        await _Companion(config_of(app)).serve(sockets=[listener])


def config_of(app: ASGIApp) -> uvicorn.Config:
    """Return uvicorn's configuration for one of Berth's applications."""
    return uvicorn.Config(
        app,
        loop="none",
        http=LimitedProtocol,
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=_GRACE_S,
    )


class _Server(uvicorn.Server):
    """A server that returns after a signal, so that the caller can close the ledger.

    Uvicorn's own server raises the signal again after it has stopped, which would end the process.
    """

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Make the server stop at SIGINT or SIGTERM, and immediately at a second SIGINT."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield


class _Companion(uvicorn.Server):
    """A server that does not handle signals."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave the signal handlers of the process unchanged."""
        yield
