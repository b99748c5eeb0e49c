"""Write requests, of which a writer commits many in one transaction."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from berth.adapters.ledger.engine.codec import encode_heartbeats
from berth.adapters.ledger.sql.queries import Parameter, Statement
from berth.domain.errors import BerthError, LedgerError
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Outcome, Unit
from berth.ports.ledger import HEARTBEATS_KEPT_MS, HeartbeatReport

TIMEOUT_S: Final = 10.0
"""The default number of seconds that a PostgreSQL server may take to answer."""

UNITS_MAX: Final = 1024
"""The number of units after which a transaction takes no more requests.

The units of one request are never split, so a transaction may have more.
"""


SPACE_TEST: Final = (
    """
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 500)
INSERT INTO claim_keys (key, version, at_s) SELECT 'space-test-' || n, 0, 0 FROM numbers""",
    "DELETE FROM claim_keys WHERE key LIKE 'space-test-%'",
)
"""The statements that fail on a full disk and otherwise change nothing.

A few small rows could fit into pages that are not full yet, although other writes fail.
"""


@dataclass(frozen=True, slots=True, eq=False)
class WriteRequest:
    """A request to commit units, draw an id, store heartbeats, run a checkpoint, or test for space.

    Attributes:
        units: the units to commit.
        counter: the kind for which to draw the next id, or None to draw none.
        answer: the future that receives the outcomes of the units, or the id.
        heartbeats: a report of heartbeats to store, or None.
        checkpoints: whether to write to the tables everything that has been committed so far.
        tests_space: whether to find out if the disk has space; see `SPACE_TEST`.
    """

    units: Sequence[Unit]
    counter: Kind | None
    answer: asyncio.Future[Any]
    checkpoints: bool = False
    heartbeats: HeartbeatReport | None = None
    tests_space: bool = False


Answers = list[tuple[WriteRequest, Any]]
"""Requests, each with its result or with the exception that its caller receives."""


def bound_heartbeats(
    statements: tuple[Statement, Statement], report: HeartbeatReport
) -> list[tuple[str, tuple[Parameter, ...]]]:
    """Return the SQL and the parameters that store a report of heartbeats."""
    dropped, stored = statements
    body = encode_heartbeats(report.seen_s, report.counts)
    values: dict[str, Parameter] = {
        "gateway": report.gateway,
        "number": report.number,
        "body": body,
    }
    oldest = report.number - HEARTBEATS_KEPT_MS
    return [(dropped.text, dropped.bind(oldest=oldest)), (stored.text, stored.bind(**values))]


def units_of(requests: Sequence[WriteRequest]) -> list[Unit]:
    """Return the units of all requests, in order."""
    return [unit for request in requests for unit in request.units]


def answers_of(
    requests: Sequence[WriteRequest], outcomes: Sequence[Outcome], numbers: Sequence[int]
) -> Answers:
    """Return each request with the outcomes of its units, or with the id that was drawn for it."""
    units_left, numbers_left = iter(outcomes), iter(numbers)
    return [
        (request, list(islice(units_left, len(request.units))))
        if request.counter is None
        else (request, next(numbers_left))
        for request in requests
    ]


def failures_of(requests: Sequence[WriteRequest], error: BaseException) -> Answers:
    """Return each request with an error, wrapped in a LedgerError unless it is a BerthError."""
    if not isinstance(error, BerthError):
        wrapped = LedgerError(
            f"the ledger cannot store the write ({error!r}); if other writes also fail, check the "
            "database"
        )
        wrapped.__cause__ = error
        error = wrapped
    return [(request, error) for request in requests]


def deliver(answers: Answers) -> None:
    """Answer the callers that still wait; must be called in their event loop."""
    for request, result in answers:
        # A caller that was cancelled gets no answer, although its units are committed.
        if request.answer.done():
            continue
        if isinstance(result, BaseException):
            request.answer.set_exception(result)
        else:
            request.answer.set_result(result)
