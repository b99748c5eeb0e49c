"""Query plans: the queries that agents and operators repeat use an index."""

import sqlite3

import pytest
from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from berth.adapters.ledger.sql import schema
from berth.adapters.ledger.sql.queries import Queries, Statement
from berth.ports.ledger import InstanceQuery, MigrationQuery

QUERIES = Queries("sqlite")


def plan_of(statement: Statement) -> list[str]:
    """Return SQLite's plan for a statement, step by step."""
    connection = sqlite3.connect(":memory:")
    engine = create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool)
    schema.metadata.create_all(engine)
    question = f"EXPLAIN QUERY PLAN {statement.text}"
    plan = [str(row[3]) for row in connection.execute(question, [1] * len(statement.names))]
    engine.dispose()
    return plan


@pytest.mark.parametrize("is_live", [None, True, False])
def test_moves_of_a_host_are_found_by_either_side(*, is_live: bool | None) -> None:
    """The query uses the indexes on source and destination, and scans no table."""
    plan = plan_of(QUERIES.migrations(MigrationQuery(host="host-1", is_live=is_live)))
    searched = {step.split(" USING INDEX ")[1].split()[0] for step in plan if "SEARCH" in step}
    assert searched == {"ix_migrations_source", "ix_migrations_destination"}
    assert not any(step.startswith("SCAN") for step in plan)


def test_instances_are_counted_from_an_index_alone() -> None:
    """The status counts use a covering index and read no record."""
    plan = plan_of(QUERIES.status_counts())
    assert any("USING COVERING INDEX ix_instances_status" in step for step in plan), plan


def test_instances_of_a_host_are_found_by_it() -> None:
    """The query for the instances of a host, which the audit repeats, uses an index."""
    plan = plan_of(QUERIES.instances(InstanceQuery(host="host-1")))
    assert any("INDEX ix_instances_host" in step for step in plan), plan
