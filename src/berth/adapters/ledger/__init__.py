"""The adapters of the ledger: in memory, in a SQLite file, and in PostgreSQL.

The PostgreSQL adapter is imported only when such a ledger is opened, because its drivers take long
to load.
"""

from berth.adapters.ledger.engine.retention import Retention
from berth.adapters.ledger.memory import MemoryLedger
from berth.adapters.ledger.opening import migrate, open_ledger, schema_of
from berth.adapters.ledger.schema_migration import SCHEMA, Schema
from berth.adapters.ledger.sqlite.sqlite_ledger import SqliteLedger

__all__ = [
    "SCHEMA",
    "MemoryLedger",
    "Retention",
    "Schema",
    "SqliteLedger",
    "migrate",
    "open_ledger",
    "schema_of",
]
