"""Serving an ASGI application over HTTP, in a process that has more to do than that."""

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
    """Return a socket that listens; port 0 takes any free one.

    Raises:
        InvalidInputError: the address is taken, or is none of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        reason = f"{host}:{port} cannot be listened on ({error.strerror}); name another"
        raise InvalidInputError("listen", reason) from error


async def serve_http(app: ASGIApp, listener: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM; requests under way get five seconds to end.

    Args:
        app: the application.
        listener: a socket that listens, see `listening`.
    """
    await _Server(config_of(app)).serve(sockets=[listener])


async def serve_beside(app: ASGIApp, listener: socket.socket) -> None:
    """Serve until cancelled, in a process that somebody else stops.

    Args:
        app: the application.
        listener: a socket that listens, see `listening`; it is closed in the end.
    """
    with listener:
        await _Companion(config_of(app)).serve(sockets=[listener])


def config_of(app: ASGIApp) -> uvicorn.Config:
    """Return how uvicorn serves an application for Berth."""
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
    """A server that stops at a signal and then returns, so that the ledger is closed after it.

    Uvicorn's own raises the signal again when it has stopped, which would end the process.
    """

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Stop at SIGINT and SIGTERM; at once when they come a second time."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield


class _Companion(uvicorn.Server):
    """A server that leaves signals to others."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture none."""
        yield
