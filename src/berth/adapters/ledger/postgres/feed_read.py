"""One read of the change feed: the ledger's versions, and the changes that the process lacks."""

from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple

import asyncpg

from berth.adapters.ledger.engine.codec import changes_of, decode_json
from berth.adapters.ledger.engine.listing import check_in_feed
from berth.adapters.ledger.postgres.own_commits import CommitRun
from berth.adapters.ledger.sql import schema
from berth.adapters.ledger.wal.reads import NO_HEAD, LedgerHead
from berth.domain.errors import FeedGapError, LedgerError
from berth.domain.ledger.change import Change

# One statement takes one round trip and no transaction, and sees one state of the ledger. The row
# of the ledger's versions has no kind: its columns are the version, the trimmed version, and the
# timelines as JSON. Each gap is a range of the primary key. The bounds of the gaps are sent as
# text, because asyncpg would query the type of an array first, once on each connection.
_READ: Final = f"""SELECT version, feed_floor, NULL AS kind, (
         SELECT json_object_agg(kind, last)::text FROM counters
          WHERE starts_with(kind, '{schema.TIMELINE}')) AS body
  FROM head
UNION ALL
SELECT changes.version, changes.seq, changes.kind, changes.body
  FROM unnest($1::text::bigint[], $2::text::bigint[]) AS gap (first, last)
  JOIN changes ON changes.version BETWEEN gap.first AND gap.last"""  # noqa: S608 - own constant

_VERSION_OF: Final = attrgetter("version")
_PLACE_OF: Final = itemgetter(0, 1)


class FeedRead(NamedTuple):
    """The result of a read: the ledger's versions, and rows of `(version, seq, kind, body)`."""

    head: LedgerHead
    rows: Sequence[Sequence[object]]


async def read_feed(
    connection: asyncpg.pool.PoolConnectionProxy, after: int, until: int, runs: Sequence[CommitRun]
) -> FeedRead:
    """Read the changes after a version and up to another one, except those of some runs.

    Args:
        connection: runs the statement.
        after: the version after which to read.
        until: the last version to read; the ledger may not have reached it.
        runs: commits of this process between the two versions, in order, which are not read.

    Raises:
        LedgerError: the table `head` is empty, or the timelines are damaged.
    """
    firsts = [after + 1, *(run.last + 1 for run in runs)]
    lasts = [*(run.first - 1 for run in runs), until]
    found = await connection.fetch(_READ, _array(firsts), _array(lasts))
    heads = [row for row in found if row[2] is None]
    if not heads:
        raise LedgerError(NO_HEAD)
    version, floor, _, timelines = heads[0]
    begun = decode_json(dict[str, int], timelines or "{}")
    rows = [tuple(row) for row in found if row[2] is not None]
    return FeedRead(LedgerHead(version, floor, version, begun), rows)


def _array(numbers: Sequence[int]) -> str:
    return f"{{{','.join(map(str, numbers))}}}"


def changes_after(
    after: int, until: int, read: FeedRead, runs: Sequence[CommitRun]
) -> list[Change]:
    """Return the changes after a version and up to another one, from a read and some runs.

    Args:
        after: the version after which to return changes.
        until: the last version to return; versions that the read did not find are left out.
        read: the result of `read_feed`, with the same versions and runs.
        runs: commits of this process, whose changes were not read.

    Raises:
        FeedGapError: the feed no longer holds the next version, or `after` is above the version of
            the ledger.
        LedgerError: a change is damaged.
    """
    check_in_feed(after, read.head.feed_floor, read.head.version)
    until = min(until, read.head.version)
    changes = changes_of(sorted(read.rows, key=_PLACE_OF))
    for run in runs:
        # The ledger may have been read before the newest commits of this process.
        changes += [one for one in run.changes if after < one.version <= until]
    changes.sort(key=_VERSION_OF)
    if len({one.version for one in changes}) != until - after:
        raise FeedGapError(
            f"the feed lacks some of the versions {after + 1} to {until}; load a snapshot"
        )
    return changes
