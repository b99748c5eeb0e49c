"""The statement that finds what was sent to child zones."""

from functools import cache

from sqlalchemy import bindparam, select

from berth.adapters.ledger.sql import schema
from berth.adapters.ledger.sql.queries import DialectName, Statement, compiled


@cache
def errands_statement(dialect: DialectName, by: tuple[str, ...]) -> Statement:
    """Errands where the columns in `by` equal, each bound by its own name."""
    table = schema.errands.c
    found = select(table.body.label("item"))
    for name in by:
        found = found.where(table[name] == bindparam(name))
    return compiled(found, dialect)
