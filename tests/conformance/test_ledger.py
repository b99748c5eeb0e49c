"""The ledger port's conformance suite on every adapter."""

import pytest

from berth.adapters.ledger import MemoryLedger, Retention, migrate, open_ledger
from berth.ports.ledger import Ledger
from berth.testing.emptying import empty
from berth.testing.ledger_conformance import (
    DurableLedgerConformance,
    LedgerConformance,
    LedgerFactory,
)

_DEFAULT = Retention()


class TestMemoryLedger(LedgerConformance):
    """The ledger in memory."""

    @pytest.fixture
    def open_ledger(self) -> LedgerFactory:
        """Return a function that opens a new ledger at each call."""

        async def open_memory(retention: Retention = _DEFAULT) -> Ledger:
            return MemoryLedger(retention=retention)

        return open_memory


class TestSqliteLedger(LedgerConformance, DurableLedgerConformance):
    """The ledger in a SQLite file."""

    @pytest.fixture
    def open_ledger(self, fresh_sqlite_url: str) -> LedgerFactory:
        """Return a function that opens the test's own file."""

        async def open_sqlite(retention: Retention = _DEFAULT) -> Ledger:
            return await open_ledger(fresh_sqlite_url, retention=retention)

        return open_sqlite


@pytest.mark.postgres
class TestPostgresLedger(LedgerConformance, DurableLedgerConformance):
    """The ledger in PostgreSQL."""

    @pytest.fixture
    async def open_ledger(self, postgres_url: str) -> LedgerFactory:
        """Empty the session's database, and return a function that opens it."""
        await migrate(postgres_url)
        await empty(postgres_url)

        async def open_postgres(retention: Retention = _DEFAULT) -> Ledger:
            return await open_ledger(postgres_url, retention=retention)

        return open_postgres
