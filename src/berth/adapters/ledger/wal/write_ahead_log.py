"""The daybook: pages of what batches did, and what many of them come to together.

A page is the `RowBatch` of one batch, packed into some bytes. A batch is durable when its page is:
the other tables are brought up to date later, for many batches at once (docs/adr/0011).
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Final

import msgspec

from berth.adapters.ledger.sql import schema
from berth.adapters.ledger.sql.row_batch import (
    ALLOCATIONS,
    CHANGES,
    CLAIM_KEYS,
    Row,
    RowBatch,
    Value,
)
from berth.domain.errors import LedgerError
from berth.domain.ledger.record import RECORD_SPECS

_LEVEL: Final = 1
"""Pages are full of the same names, so the quickest compression leaves a tenth of them."""

_Place = tuple[str, str]
"""A provider and a class."""
_Spent = tuple[int, int, int]
"""Difference of what is used, what is used, and the provider's generation."""

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(RowBatch)

DEFERRED_KINDS: Final = frozenset(kind for kind, spec in RECORD_SPECS.items() if spec.is_deferrable)
"""Kinds whose records may be in the write-ahead log before they are in their tables."""

_INSTANCES: Final = schema.instances.name
_WIDTH: Final = len(schema.instances.columns)
_WIDTH_BEFORE: Final = _WIDTH - 4
"""Columns of an instance before those of schema revision 0005, which stand before its body."""


class _Size(msgspec.Struct):
    """What a flavor counts for."""

    vcpus: int
    memory_mb: int


class _Sized(msgspec.Struct):
    """What the body of an instance says that it counts for."""

    flavor: _Size
    counts_as: tuple[int, int] | None = None


_SIZED: Final = msgspec.json.Decoder(_Sized)

_MAY_WAIT: Final = frozenset(
    {
        *(schema.RECORD_TABLES[kind].name for kind in DEFERRED_KINDS),
        CLAIM_KEYS,
        ALLOCATIONS,
        CHANGES,
    }
)


def is_deferrable(batch: RowBatch) -> bool:
    """Tell whether a batch did only what a page can be made of.

    That is what the lives of instances and consumers are made of. Whatever changes the fleet is
    rare, and is written to its tables at once.
    """
    return (
        not batch.emptied
        and batch.upserts.keys() <= _MAY_WAIT
        and batch.inserts.keys() <= _MAY_WAIT
        and batch.removed.keys() <= DEFERRED_KINDS
    )


def count_rows(batch: RowBatch) -> int:
    """Count the rows that a batch adds or replaces."""
    return sum(len(rows) for rows in (*batch.upserts.values(), *batch.inserts.values()))


def pack_batch(batch: RowBatch) -> bytes:
    """Make a page.

    What the feed tells of an instance is mostly what its table has of it too. Such a change has
    the number of that row instead of the text.
    """
    numbers = {id(row[-1]): at for at, row in enumerate(batch.upserts.get(_INSTANCES, ()))}
    changes = batch.inserts.get(CHANGES)
    if numbers:
        # Processes of the version before read pages, too, and have these columns only.
        rows = [(*row[:_WIDTH_BEFORE], row[-1]) for row in batch.upserts[_INSTANCES]]
        batch = replace(batch, upserts={**batch.upserts, _INSTANCES: rows})
    if numbers and changes:
        told = [(*row[:-1], numbers.get(id(row[-1]), row[-1])) for row in changes]
        batch = replace(batch, inserts={**batch.inserts, CHANGES: told})
    return zlib.compress(_ENCODER.encode(batch), _LEVEL)


def unpack_batch(packed: bytes) -> RowBatch:
    """Read a page.

    Raises:
        LedgerError: it is damaged, or was written by a Berth that knows more.
    """
    try:
        batch = _DECODER.decode(zlib.decompress(packed))
        _widen(batch)
        rows, changes = batch.upserts.get(_INSTANCES, ()), batch.inserts.get(CHANGES, ())
        told = [
            (*row[:-1], rows[row[-1]][-1]) if isinstance(row[-1], int) else row for row in changes
        ]
    except (zlib.error, msgspec.MsgspecError, IndexError) as error:
        raise LedgerError(f"a page of the daybook cannot be read: {error}") from error
    if told:
        batch.inserts[CHANGES] = told
    return batch


def _widen(batch: RowBatch) -> None:
    """Add to rows of instances what pages leave out: the columns of schema revision 0005."""
    rows = batch.upserts.get(_INSTANCES)
    if rows and len(rows[0]) < _WIDTH:
        batch.upserts[_INSTANCES] = [
            (*row[:-1], *_counted_in(row[-1], revision=row[-2]), row[-1]) for row in rows
        ]


def _counted_in(body: Value, *, revision: Value) -> tuple[Value, Value, Value]:
    """Read what an instance counts for out of its body, and say as of which revision."""
    try:
        sized = _SIZED.decode(str(body))
    except msgspec.MsgspecError:
        return None, None, None
    return (*(sized.counts_as or (sized.flavor.vcpus, sized.flavor.memory_mb)), revision)


def merge_batches(batches: Sequence[RowBatch], *, in_doubt: bool = False) -> RowBatch:
    """Return what pages come to that follow one another: the last state of everything.

    Writing it does what writing one page after the other does.

    Args:
        batches: from the oldest that is not in the tables.
        in_doubt: some of it may be in some tables already, so nothing is left out that could
            undo it.
    """
    total = RowBatch(batches[0].first, batches[-1].version)
    spent: dict[_Place, _Spent] = {}
    records: dict[str, dict[Value, Row | None]] = {}
    allocations: dict[Value, list[Row]] = {}
    freed: dict[Value, None] = {}
    seen: dict[str, str] = {}
    for batch in batches:
        generations = batch.generations or repeat(0, len(batch.spent))
        for (provider, name, more, used), generation in zip(batch.spent, generations, strict=True):
            place = (provider, name)
            before, _, known = spent.get(place, _NOTHING)
            spent[place] = (before + more, used, generation or known)
        _merge_records(records, batch, total.born)
        _merge_allocations(allocations, batch, freed)
        for name in (CLAIM_KEYS, CHANGES):
            if rows := batch.inserts.get(name):
                total.inserts.setdefault(name, []).extend(rows)
        seen.update(batch.seen)
    written = _worth_writing(spent, in_doubt=in_doubt)
    total.spent = [(p, c, more, used) for (p, c), (more, used, _) in written.items()]
    total.generations = [generation for _, _, generation in written.values()]
    for table, rows_by_key in records.items():
        total.upserts[table] = [row for row in rows_by_key.values() if row is not None]
        kind = schema.KIND_OF_TABLE.get(table)
        if kind is not None:
            total.removed[kind] = [str(key) for key, row in rows_by_key.items() if row is None]
    total.freed = [str(consumer) for consumer in (freed | allocations if in_doubt else freed)]
    total.inserts[ALLOCATIONS] = [row for rows in allocations.values() for row in rows]
    total.seen = list(seen.items())
    if in_doubt:
        total.born.clear()
    return total


_NOTHING: Final = (0, 0, 0)


def _worth_writing(spent: Mapping[_Place, _Spent], *, in_doubt: bool) -> Mapping[_Place, _Spent]:
    """Leave out what came to nothing, but for what bears the newest generation of a provider."""
    if in_doubt or all(more for more, _, _ in spent.values()):
        return spent
    kept = {place: row for place, row in spent.items() if row[0]}
    newest: dict[str, int] = {}
    for (provider, _), (_, _, generation) in kept.items():
        newest[provider] = max(newest.get(provider, 0), generation)
    for place, row in spent.items():
        if row[-1] > newest.get(place[0], 0):
            newest[place[0]] = row[-1]
            kept[place] = row
    return kept


def _merge_records(
    records: dict[str, dict[Value, Row | None]], batch: RowBatch, born: set[str]
) -> None:
    for kind, keys in batch.removed.items():
        of_kind = records.setdefault(schema.RECORD_TABLES[kind].name, {})
        of_kind.update(dict.fromkeys(keys))
    for table, rows in batch.upserts.items():
        of_table = records.setdefault(table, {})
        if table == schema.instances.name:
            born.update(batch.born.difference(of_table))
        for row in rows:
            of_table[row[0]] = row


def _merge_allocations(
    allocations: dict[Value, list[Row]], batch: RowBatch, freed: dict[Value, None]
) -> None:
    """Keep the newest allocations of each consumer; `freed` had some before the first page."""
    for consumer in batch.freed:
        if consumer not in allocations:
            freed[consumer] = None
        allocations[consumer] = []
    for row in batch.inserts.get(ALLOCATIONS, ()):
        allocations.setdefault(row[0], []).append(row)
