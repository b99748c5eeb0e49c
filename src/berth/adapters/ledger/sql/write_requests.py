"""Write requests of many callers, to be committed in one transaction."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from berth.domain.errors import BerthError, LedgerError
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Outcome, Unit

TIMEOUT_S: Final = 10.0
"""Seconds to wait for a connection, for other writers, and for one statement."""

UNITS_MAX: Final = 1024
"""Approximate number of units in one transaction: the units of one caller are never split."""


@dataclass(frozen=True, slots=True, eq=False)
class WriteRequest:
    """Units to commit, or a counter to draw a number from, and the future that gets the answer.

    `checkpoints` requests that everything committed before be in the tables.
    """

    units: Sequence[Unit]
    counter: Kind | None
    answer: asyncio.Future[Any]
    checkpoints: bool = False


Answers = list[tuple[WriteRequest, Any]]
"""The answer to each request: a result, or the exception to raise where it is awaited."""


def units_of(requests: Sequence[WriteRequest]) -> list[Unit]:
    """Return the units of all requests, in order."""
    return [unit for request in requests for unit in request.units]


def answers_of(
    requests: Sequence[WriteRequest], outcomes: Sequence[Outcome], numbers: Sequence[int]
) -> Answers:
    """Distribute the outcomes of all units, and the numbers drawn, among their requests."""
    units_left, numbers_left = iter(outcomes), iter(numbers)
    return [
        (request, list(islice(units_left, len(request.units))))
        if request.counter is None
        else (request, next(numbers_left))
        for request in requests
    ]


def failures_of(requests: Sequence[WriteRequest], error: Exception) -> Answers:
    """Answer all requests with an error, wrapped as a Berth error if it is none."""
    if not isinstance(error, BerthError):
        wrapped = LedgerError(f"the write cannot be stored: {error!r}")
        wrapped.__cause__ = error
        error = wrapped
    return [(request, error) for request in requests]


def deliver(answers: Answers) -> None:
    """Answer the callers that still wait. Call it in their event loop."""
    for request, result in answers:
        # The caller was cancelled. Its units are committed all the same.
        if request.answer.done():
            continue
        if isinstance(result, BaseException):
            request.answer.set_exception(result)
        else:
            request.answer.set_result(result)
