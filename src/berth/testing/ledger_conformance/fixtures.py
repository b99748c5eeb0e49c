"""Fixtures and helpers of the ledger conformance suite."""

from collections.abc import AsyncGenerator
from typing import Final, Protocol

import pytest
import pytest_asyncio

from berth.adapters.ledger.engine.retention import Retention
from berth.domain.ledger.write import Committed, Outcome, Rejected, Unit
from berth.ports.ledger import Ledger

DEFAULT: Final = Retention()
"""The retention in tests that do not depend on it."""


class LedgerFactory(Protocol):
    """Opens the store of a test, which is empty at the first call."""

    async def __call__(self, retention: Retention = DEFAULT) -> Ledger:
        """Open the store."""
        ...


class LedgerFixtures:
    """Fixtures of the suite; a subclass overrides `open_ledger`."""

    @pytest.fixture
    def open_ledger(self) -> LedgerFactory:
        """Return the factory of the ledger under test; each subclass overrides this fixture."""
        raise NotImplementedError("subclass the conformance suite and override `open_ledger`")

    @pytest_asyncio.fixture
    async def ledger(self, open_ledger: LedgerFactory) -> AsyncGenerator[Ledger, None]:
        """Open an empty ledger and close it after the test."""
        ledger = await open_ledger()
        yield ledger
        await ledger.close()


async def commit(ledger: Ledger, *units: Unit) -> int:
    """Commit units, and return the last version; a refusal fails the test."""
    version = 0
    for outcome in await ledger.commit(units):
        if not isinstance(outcome, Committed):
            raise AssertionError(outcome)  # noqa: TRY004 - the test fails, no type is wrong
        version = outcome.version
    return version


async def refused(ledger: Ledger, unit: Unit) -> Rejected:
    """Commit a unit, and return its refusal; the test fails if the unit is committed."""
    return as_refused((await ledger.commit([unit]))[0])


def as_refused(outcome: Outcome) -> Rejected:
    """Return an outcome as a refusal; the test fails if it is not one."""
    if not isinstance(outcome, Rejected):
        raise AssertionError(outcome)  # noqa: TRY004 - the test fails, no type is wrong
    return outcome
