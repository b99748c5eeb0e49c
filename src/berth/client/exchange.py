"""Carries out steps: credentials, repetitions, and errors, independent of how requests are sent."""

from collections.abc import Callable, Generator
from contextlib import suppress
from http import HTTPStatus
from random import Random
from typing import Any, Final, TypeAlias, TypeVar

import httpx
import msgspec

from berth.client.errors import (
    ClientError,
    UnavailableError,
    UnreadableAnswerError,
    error_of,
)
from berth.client.requests import Json, Now, Pause, Request, Steps, read_document

R = TypeVar("R")

TOKEN_HEADER: Final = "X-Auth-Token"  # noqa: S105 - the name of a header
_RETRY_AFTER: Final = "retry-after"
# The service or a proxy is busy. After 502 or 504 the request may still have had an effect, so only
# repeatable requests are sent again.
_BUSY: Final = frozenset({429, 502, 503, 504})
# No connection was made, so no byte of the request was sent.
_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class Send(msgspec.Struct, frozen=True):
    """A request to send; `is_stream` leaves the body of a success unread."""

    request: Request
    token: str | None = None
    is_stream: bool = False


class Renew(msgspec.Struct, frozen=True):
    """The call of the function that returns a new token."""


class Seen(msgspec.Struct):
    """The last request that succeeded, and the body of its response."""

    request: Request = msgspec.field(default_factory=lambda: Request("GET", ""))
    content: bytes = b""


Effect: TypeAlias = Send | Pause | Renew
"""What a sender can do: it returns a response, nothing, or a token."""
Effects: TypeAlias = Generator[Effect, Any, R]


class Retries(msgspec.Struct, frozen=True):
    """How often a failed request is repeated, and after which pauses.

    GET requests and requests with an idempotency key are repeated when the service does not answer
    or is busy (429, 502, 503, 504), any other request only when no connection was made. The pauses
    begin with `first_s` seconds and double up to `last_s`, each shortened at random by up to a
    half, so that many clients do not return at once. A response with `Retry-After` sets the pause;
    if it exceeds `last_s`, the request is not repeated. `attempts` includes the first one.
    """

    attempts: int = 4
    first_s: float = 0.2
    last_s: float = 5.0

    def pause_s(self, attempt: int, random: Random) -> float:
        """Return the pause after an attempt, counted from 0, in seconds."""
        longest_s = min(self.first_s * 2.0**attempt, self.last_s)
        return longest_s * random.uniform(0.5, 1.0)


NO_RETRIES: Final = Retries(attempts=1)
"""Every request is sent once."""


class Exchange:
    """Turns steps into effects, which a sender can perform.

    Args:
        address: the address of the service without credentials, for errors.
        retries: how often requests are repeated.
        token: the token of all requests; None if there is none, or none yet.
        renews: whether the sender can return a new token.
        now_s: the monotonic clock, in seconds.
        timeout_s: the timeout of a request, for errors.
    """

    def __init__(
        self,
        *,
        address: str,
        retries: Retries,
        token: str | None,
        renews: bool,
        now_s: Callable[[], float],
        timeout_s: float,
    ) -> None:
        self._address = address
        self._retries = retries
        self._token = token
        self._renews = renews
        self._now_s = now_s
        self._timeout_s = timeout_s
        self._random = Random()  # noqa: S311 - it spreads pauses, and hides nothing

    def carry_out(self, steps: Steps[R], seen: Seen | None = None) -> Effects[R]:
        """Return the result of steps.

        Args:
            steps: the steps.
            seen: receives the last request and the body of its response.

        Raises:
            ClientError: a request failed, and the steps do not handle that.
        """
        result: object = None
        failure: ClientError | None = None
        while True:
            try:
                step = steps.send(result) if failure is None else steps.throw(failure)
            except StopIteration as end:
                found: R = end.value
                return found
            result = failure = None
            match step:
                case Pause():
                    yield step
                case Now():
                    result = self._now_s()
                case Request():
                    try:
                        answer = yield from self.answer(step)
                    except ClientError as error:
                        failure = error
                        continue
                    result = answer.content
                    if seen is not None:
                        seen.request, seen.content = step, answer.content

    def document(self, steps: Steps[Any]) -> Effects[Json]:
        """Return the last response to steps as the JSON object that it is.

        Raises:
            ClientError: a request failed, and the steps do not handle that.
        """
        seen = Seen()
        # The caller wants the response of a service of any version, so all that is checked is that
        # it is a JSON object.
        with suppress(UnreadableAnswerError):
            yield from self.carry_out(steps, seen)
        return read_document(seen.content, seen.request)

    def answer(self, request: Request, *, is_stream: bool = False) -> Effects[httpx.Response]:
        """Return the successful response to a request, which may be sent several times.

        Raises:
            ClientError: the service cannot be reached, or answers with an error.
        """
        attempt = 0
        may_renew = self._renews
        if self._renews and self._token is None:
            self._token = yield Renew()
            may_renew = False
        failure: ClientError
        while True:
            sent = Send(request, self._token, is_stream)
            try:
                answer: httpx.Response = yield sent
            except httpx.RequestError as error:
                failure = self.unreachable(error, request)
                is_safe = request.is_repeatable or isinstance(error, _NOT_SENT)
                pause_s = self._pause_s(attempt, None)
            else:
                if answer.is_success:
                    return answer
                failure = error_of(answer, request.method, request.path)
                if may_renew and answer.status_code == HTTPStatus.UNAUTHORIZED:
                    # The token has expired, and the request had no effect.
                    may_renew = False
                    self._token = yield Renew()
                    continue
                is_safe = request.is_repeatable and answer.status_code in _BUSY
                pause_s = self._pause_s(attempt, answer)
            if not is_safe or pause_s is None:
                raise failure
            yield Pause(pause_s)
            attempt += 1

    def unreachable(self, error: httpx.RequestError, request: Request) -> UnavailableError:
        """Return the error for a request without an answer."""
        message = f"cannot reach {self._address} ({error})"
        if isinstance(error, httpx.TimeoutException):
            message = f"{self._address} did not answer within {self._timeout_s:g} s"
        made = UnavailableError(message, method=request.method, path=request.path)
        made.__cause__ = error
        return made

    def _pause_s(self, attempt: int, answer: httpx.Response | None) -> float | None:
        """Return the pause before the next attempt, or None if there is none."""
        if attempt + 1 >= self._retries.attempts:
            return None
        asked = None if answer is None else answer.headers.get(_RETRY_AFTER)
        if asked is None or not asked.isdecimal():
            return self._retries.pause_s(attempt, self._random)
        return float(asked) if float(asked) <= self._retries.last_s else None
