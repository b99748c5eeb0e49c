"""Footprints of instances in SQL, from their columns or from a body written by an older Berth."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import msgspec
import pytest
from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from berth.adapters.ledger.engine.apply import apply_units
from berth.adapters.ledger.engine.codec import encode
from berth.adapters.ledger.engine.working_set import WorkingSet
from berth.adapters.ledger.sql import schema
from berth.adapters.ledger.sql.quota_queries import footprint_statement
from berth.adapters.ledger.sql.row_batch import RowBatch, row_batch_of
from berth.adapters.ledger.sqlite.sqlite_batch import load_counted, write
from berth.adapters.ledger.wal.write_ahead_log import pack_batch, unpack_batch
from berth.domain.compute.instance import Instance
from berth.domain.ledger.write import Put
from berth.testing.builders import make_flavor, make_instance

SMALL, LARGE = make_flavor(vcpus=1, memory_mb=512), make_flavor(vcpus=4, memory_mb=2_048)
RESIZED = replace(make_instance(1), flavor=SMALL, counts_as=(4, 2_048))


@pytest.fixture
def file() -> Iterator[sqlite3.Connection]:
    """Yield a ledger file with empty tables."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        engine = create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool)
        schema.metadata.create_all(engine)
        yield connection


def batch_with(instance: Instance) -> RowBatch:
    """Return the row batch that stores an instance."""
    working_set = WorkingSet()
    apply_units(working_set, [(Put(instance),)])
    return row_batch_of(working_set, working_set.take_changes(), at_s=7.0, first=1)


def counted(connection: sqlite3.Connection) -> list[object]:
    """Return the footprint of the instance, and check that both statements agree on it."""
    ((project, _, *sizes),) = msgspec.json.decode(load_counted(connection, ["project-1"]))
    statement = footprint_statement("sqlite")
    ((item,),) = connection.execute(statement.text, statement.bind(key="project-1"))
    assert project == "project-1"
    assert msgspec.json.decode(item) == sizes
    return list(sizes)


def test_the_columns_have_the_footprint(file: sqlite3.Connection) -> None:
    """During a resize, the columns hold the larger size."""
    write(file, batch_with(RESIZED))
    assert counted(file) == [4, 2_048]
    assert file.execute("SELECT counted_revision = revision FROM instances").fetchone() == (1,)


@pytest.mark.parametrize(
    ("flavor", "counts_as", "expected"),
    [(SMALL, None, [1, 512]), (LARGE, None, [4, 2_048]), (SMALL, (8, 256), [8, 256])],
)
def test_a_row_by_an_older_berth_counts_by_its_body(
    file: sqlite3.Connection, flavor: object, counts_as: object, expected: list[int]
) -> None:
    """If an older Berth changed the row without the columns, the footprint comes from the body."""
    write(file, batch_with(RESIZED))
    body = encode(replace(RESIZED, flavor=flavor, counts_as=counts_as, revision=2))  # type: ignore[arg-type]
    file.execute("UPDATE instances SET revision = 2, body = ?", (body,))
    assert counted(file) == expected


def test_rows_from_the_log_have_the_footprint_of_their_revision() -> None:
    """Unpacking a log record, which omits these columns, restores them."""
    batch = unpack_batch(pack_batch(batch_with(RESIZED)))
    (row,) = batch.upserts[schema.instances.name]
    names = [column.name for column in schema.instances.columns]
    found = dict(zip(names, row, strict=True))
    assert (found["vcpus"], found["memory_mb"], found["counted_revision"]) == (4, 2_048, 1)
