"""The ledger's adapters: in memory, in a SQLite file, in PostgreSQL."""

from berth.adapters.ledger.memory import MemoryLedger
from berth.adapters.ledger.opening import migrate, open_ledger
from berth.adapters.ledger.postgres import PostgresLedger
from berth.adapters.ledger.retention import Retention
from berth.adapters.ledger.sqlite import SqliteLedger

__all__ = ["MemoryLedger", "PostgresLedger", "Retention", "SqliteLedger", "migrate", "open_ledger"]
