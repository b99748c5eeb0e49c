"""The two ways to send requests: blocking, and asynchronous on asyncio."""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from inspect import isawaitable
from typing import TypeVar

import httpx

from berth.client.endpoint import AsyncTokenSource, TokenSource
from berth.client.exchange import TOKEN_HEADER, Effect, Effects, Exchange, Renew, Send
from berth.client.requests import Pause, Request

R = TypeVar("R")


class Blocking:
    """Sends requests with `httpx.Client`; its methods return when the response is there.

    Args:
        http: the HTTP client, configured with address and credentials.
        exchange: turns steps into effects.
        renew: returns a new token; None if the credentials do not expire.
    """

    def __init__(
        self, http: httpx.Client, exchange: Exchange, renew: TokenSource | None = None
    ) -> None:
        self.http = http
        self.exchange = exchange
        self._renew = renew

    @contextmanager
    def stream(self, request: Request) -> Generator[Iterator[bytes]]:
        """Yield an iterator over the pieces of a large response.

        Raises:
            ClientError: the request failed, or the connection broke during the response.
        """
        answer = self.drive(self.exchange.answer(request, is_stream=True))
        try:
            yield answer.iter_bytes()
        except httpx.RequestError as error:
            raise self.exchange.unreachable(error, request) from error
        finally:
            answer.close()

    def drive(self, effects: Effects[R]) -> R:
        """Perform effects and return their result.

        Raises:
            ClientError: a request failed.
        """
        result: object = None
        failure: Exception | None = None
        while True:
            try:
                effect = effects.send(result) if failure is None else effects.throw(failure)
            except StopIteration as end:
                found: R = end.value
                return found
            result = failure = None
            try:
                result = self._perform(effect)
            except httpx.RequestError as error:
                failure = error

    def _perform(self, effect: Effect) -> object:
        match effect:
            case Send():
                answer = self.http.send(built(self.http, effect), stream=effect.is_stream)
                # A streamed response has no body until it is read, and errors need the message.
                if effect.is_stream and not answer.is_success:
                    answer.read()
                return answer
            case Pause():
                time.sleep(effect.seconds)
                return None
            case Renew():
                return self._renew() if self._renew is not None else None


class Awaiting:
    """Sends requests with `httpx.AsyncClient`; its methods are coroutines, for asyncio.

    Args:
        http: the HTTP client, configured with address and credentials.
        exchange: turns steps into effects.
        renew: returns a new token, or a coroutine that does; None if the credentials do not expire.
    """

    def __init__(
        self, http: httpx.AsyncClient, exchange: Exchange, renew: AsyncTokenSource | None = None
    ) -> None:
        self.http = http
        self.exchange = exchange
        self._renew = renew

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Yield an iterator over the pieces of a large response.

        Raises:
            ClientError: the request failed, or the connection broke during the response.
        """
        answer = await self.drive(self.exchange.answer(request, is_stream=True))
        try:
            yield answer.aiter_bytes()
        except httpx.RequestError as error:
            raise self.exchange.unreachable(error, request) from error
        finally:
            await answer.aclose()

    async def drive(self, effects: Effects[R]) -> R:
        """Perform effects and return their result.

        Raises:
            ClientError: a request failed.
        """
        result: object = None
        failure: Exception | None = None
        while True:
            try:
                effect = effects.send(result) if failure is None else effects.throw(failure)
            except StopIteration as end:
                found: R = end.value
                return found
            result = failure = None
            try:
                result = await self._perform(effect)
            except httpx.RequestError as error:
                failure = error

    async def _perform(self, effect: Effect) -> object:
        match effect:
            case Send():
                answer = await self.http.send(built(self.http, effect), stream=effect.is_stream)
                if effect.is_stream and not answer.is_success:
                    await answer.aread()
                return answer
            case Pause():
                # Programs that use only the blocking client need not load asyncio.
                import asyncio  # noqa: PLC0415

                await asyncio.sleep(effect.seconds)
                return None
            case Renew():
                token = self._renew() if self._renew is not None else None
                return await token if isawaitable(token) else token


def built(http: httpx.Client | httpx.AsyncClient, effect: Send) -> httpx.Request:
    """Return the request of the HTTP library."""
    request = effect.request
    headers = dict(request.headers)
    if effect.token is not None:
        headers[TOKEN_HEADER] = effect.token
    return http.build_request(
        request.method,
        f"{request.path}?{request.query}" if request.query else request.path,
        json=request.body,
        headers=headers,
    )
