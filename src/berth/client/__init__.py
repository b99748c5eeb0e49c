"""A client library for Berth's own API, `/berth/v1`, blocking and asynchronous.

    with Client("http://127.0.0.1:8774") as berth:
        print(berth.capacity("small").total)

Values in responses are immutable, and fields that a newer service adds are ignored. All errors are
subclasses of `ClientError`. The compute, placement and image APIs that Berth also serves belong to
OpenStack, whose SDK is the client for them.
"""

from berth.client.client import AsyncClient, Client
from berth.client.errors import (
    AuthError,
    BadRequestError,
    ClientError,
    ConflictError,
    DeadlineError,
    ForbiddenError,
    NotFoundError,
    TooManyRequestsError,
    UnavailableError,
    UnreadableAnswerError,
)
from berth.client.exchange import NO_RETRIES, Retries
from berth.client.refusals import NoValidHostError

__all__ = [
    "NO_RETRIES",
    "AsyncClient",
    "AuthError",
    "BadRequestError",
    "Client",
    "ClientError",
    "ConflictError",
    "DeadlineError",
    "ForbiddenError",
    "NoValidHostError",
    "NotFoundError",
    "Retries",
    "TooManyRequestsError",
    "UnavailableError",
    "UnreadableAnswerError",
]
