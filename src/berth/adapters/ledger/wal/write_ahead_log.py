"""The write-ahead log: packing and unpacking its records, and merging many batches into one.

A record of the log (table `daybook`) is the `RowBatch` of one batch, packed into bytes. A batch is
durable as soon as its record is. A checkpoint later writes many batches together to the other
tables (docs/adr/0011-the-daybook.md).
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Final

import msgspec

from berth.adapters.ledger.engine.codec import DAMAGED
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

# The fastest level of zlib. Batches repeat the same names, so even this level compresses them well.
_LEVEL: Final = 1

# The UUID of a provider, and a resource class.
_Place = tuple[str, str]
# The change in usage, the resulting usage, and the provider's generation, which is 0 if unknown.
_Spent = tuple[int, int, int]

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(RowBatch)

DEFERRED_KINDS: Final = frozenset(kind for kind, spec in RECORD_SPECS.items() if spec.is_deferrable)
"""Kinds whose records may be in the write-ahead log before they are in their tables."""

_INSTANCES: Final = schema.instances.name
_WIDTH: Final = len(schema.instances.columns)
# The number of columns that precede the footprint columns of schema revision 0005. The last four
# columns of an instance are these three and its body.
_WIDTH_BEFORE: Final = _WIDTH - 4


class _Size(msgspec.Struct):
    """The fields of a flavor that determine the footprint of its instances."""

    vcpus: int
    memory_mb: int


class _Sized(msgspec.Struct):
    """The fields of an instance's body that determine its footprint."""

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
    """Return whether a batch may be committed to the log alone.

    It may if it changed only records of deferrable kinds, claim keys, allocations, usage and
    heartbeats. Other changes are rare and are written to their tables directly.
    """
    return (
        not batch.emptied
        and batch.upserts.keys() <= _MAY_WAIT
        and batch.inserts.keys() <= _MAY_WAIT
        and batch.removed.keys() <= DEFERRED_KINDS
    )


def count_rows(batch: RowBatch) -> int:
    """Return the number of rows that a batch adds or replaces."""
    return sum(len(rows) for rows in (*batch.upserts.values(), *batch.inserts.values()))


def pack_batch(batch: RowBatch) -> bytes:
    """Return a batch as a record of the log.

    Most changes of instances in the feed have the same body as the row of the instance. Such a
    change stores the index of that row instead of the body.
    """
    numbers = {id(row[-1]): at for at, row in enumerate(batch.upserts.get(_INSTANCES, ()))}
    changes = batch.inserts.get(CHANGES)
    if numbers:
        # The log may also be read by an older Berth, which knows only these columns.
        rows = [(*row[:_WIDTH_BEFORE], row[-1]) for row in batch.upserts[_INSTANCES]]
        batch = replace(batch, upserts={**batch.upserts, _INSTANCES: rows})
    if numbers and changes:
        numbered = [(*row[:-1], numbers.get(id(row[-1]), row[-1])) for row in changes]
        batch = replace(batch, inserts={**batch.inserts, CHANGES: numbered})
    return zlib.compress(_ENCODER.encode(batch), _LEVEL)


def unpack_batch(packed: bytes) -> RowBatch:
    """Return the batch in a record of the log.

    Raises:
        LedgerError: the record is damaged, or a newer version of Berth has written it.
    """
    try:
        batch = _DECODER.decode(zlib.decompress(packed))
        _widen(batch)
        rows, changes = batch.upserts.get(_INSTANCES, ()), batch.inserts.get(CHANGES, ())
        expanded = [
            (*row[:-1], rows[row[-1]][-1]) if isinstance(row[-1], int) else row for row in changes
        ]
    except (zlib.error, msgspec.MsgspecError, IndexError) as error:
        raise LedgerError(
            f"cannot decode a record of the write-ahead log (table `daybook`): {error}; {DAMAGED}"
        ) from error
    if expanded:
        batch.inserts[CHANGES] = expanded
    return batch


def _widen(batch: RowBatch) -> None:
    """Add the footprint columns of schema revision 0005, which records omit, to instances' rows."""
    rows = batch.upserts.get(_INSTANCES)
    if rows and len(rows[0]) < _WIDTH:
        batch.upserts[_INSTANCES] = [
            (*row[:-1], *_counted_in(row[-1], revision=row[-2]), row[-1]) for row in rows
        ]


def _counted_in(body: Value, *, revision: Value) -> tuple[Value, Value, Value]:
    """Return the vCPUs, the MiB of memory and the revision to store as an instance's footprint.

    All three are None if the body cannot be decoded.
    """
    try:
        sized = _SIZED.decode(str(body))
    except msgspec.MsgspecError:
        return None, None, None
    return (*(sized.counts_as or (sized.flavor.vcpus, sized.flavor.memory_mb)), revision)


def merge_batches(batches: Sequence[RowBatch], *, in_doubt: bool = False) -> RowBatch:
    """Return consecutive batches merged into one that has only the last state of each row.

    Writing it has the same effect as writing the batches one after the other.

    Args:
        batches: at least one batch, in order, from the oldest that is not in the tables.
        in_doubt: whether an interrupted checkpoint may have written some of the batches to some
            tables. The result then also overwrites and deletes what such a checkpoint may have
            left there.
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
    # If `in_doubt`, allocations are deleted even for consumers that had none before these batches,
    # because an interrupted checkpoint may have inserted some.
    total.freed = [str(consumer) for consumer in (freed | allocations if in_doubt else freed)]
    total.inserts[ALLOCATIONS] = [row for rows in allocations.values() for row in rows]
    total.seen = list(seen.items())
    if in_doubt:
        # An interrupted checkpoint may have inserted these instances, so they may not be new.
        total.born.clear()
    return total


_NOTHING: Final = (0, 0, 0)


def _worth_writing(spent: Mapping[_Place, _Spent], *, in_doubt: bool) -> Mapping[_Place, _Spent]:
    """Return all changes of usage if `in_doubt`, else those that do not cancel out.

    A change that cancels out is kept if no other row has its provider's newest generation.
    """
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
    """Apply the deletions and insertions of allocations in a batch to `allocations`.

    A consumer that the batch frees is added to `freed` unless it is in `allocations`, because the
    tables may have allocations of it from before the first batch.
    """
    for consumer in batch.freed:
        if consumer not in allocations:
            freed[consumer] = None
        allocations[consumer] = []
    for row in batch.inserts.get(ALLOCATIONS, ()):
        allocations.setdefault(row[0], []).append(row)
