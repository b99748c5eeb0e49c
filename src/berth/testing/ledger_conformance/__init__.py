"""Conformance suite of the ledger port: the behaviour required of every ledger.

To test a ledger, subclass the suite in a test module and provide a factory that opens it:

    class TestMyLedger(LedgerConformance):
        @pytest.fixture
        def open_ledger(self, tmp_path: Path) -> LedgerFactory:
            async def open_ledger(retention: Retention = Retention()) -> Ledger:
                return await MyLedger.open(tmp_path / "ledger", retention)

            return open_ledger

Within one test every call of the factory opens the same store, which is empty at first. A ledger
whose store outlives the process must also pass `DurableLedgerConformance`. The tests require
pytest-asyncio in `auto` mode.
"""

from berth.testing.ledger_conformance.claims import ClaimTests
from berth.testing.ledger_conformance.consumers import ConsumerTests
from berth.testing.ledger_conformance.durability import DurableLedgerConformance
from berth.testing.ledger_conformance.feed import FeedTests
from berth.testing.ledger_conformance.fixtures import LedgerFactory, LedgerFixtures
from berth.testing.ledger_conformance.guards import GuardTests
from berth.testing.ledger_conformance.listing import ListingTests
from berth.testing.ledger_conformance.migrations import MigrationTests
from berth.testing.ledger_conformance.quotas import QuotaTests
from berth.testing.ledger_conformance.reallocations import ReallocationTests
from berth.testing.ledger_conformance.records import RecordTests
from berth.testing.ledger_conformance.revisions import RevisionTests
from berth.testing.ledger_conformance.transfers import TransferTests
from berth.testing.ledger_conformance.trees import TreeTests

__all__ = ["DurableLedgerConformance", "LedgerConformance", "LedgerFactory", "LedgerFixtures"]


class LedgerConformance(
    ClaimTests,
    TreeTests,
    ReallocationTests,
    TransferTests,
    ConsumerTests,
    RevisionTests,
    GuardTests,
    QuotaTests,
    RecordTests,
    ListingTests,
    MigrationTests,
    FeedTests,
):
    """All conformance tests of a ledger."""
