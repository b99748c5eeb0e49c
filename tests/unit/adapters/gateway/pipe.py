"""A pipe within one process that carries a session."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from berth.adapters.gateway.remote import FrameStream
from berth.adapters.gateway.session import AgentSession, SessionList
from berth.domain.errors import UnavailableError


class _Pipe:
    """Carries frames between an agent and its session; see `FrameStream`."""

    def __init__(self, sessions: SessionList) -> None:
        self._frames: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._reason = ""
        self._is_closed = False
        self._session = AgentSession(sessions, self._frames.put_nowait, self._end)
        self._session.begin()

    async def send(self, data: bytes) -> None:
        if self._is_closed:
            raise UnavailableError("the connection is closed")
        self._session.receive(data)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (data := await self._frames.get()) is not None:
            yield data

    async def close(self) -> None:
        self._end(1000, "")

    @property
    def close_reason(self) -> str:
        return self._reason

    def _end(self, code: int, reason: str) -> None:
        if not self._is_closed:
            self._is_closed, self._reason = True, f"{code}: {reason}" if reason else ""
            self._frames.put_nowait(None)
            self._session.ended()


@asynccontextmanager
async def connect_pipe(sessions: SessionList) -> AsyncGenerator[FrameStream]:
    """Open a pipe to the sessions of a process."""
    pipe = _Pipe(sessions)
    try:
        yield pipe
    finally:
        await pipe.close()
