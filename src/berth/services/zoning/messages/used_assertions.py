"""Used assertions, shared by all API processes of a zone."""

import hashlib

from berth.domain.ledger.write import Committed, Guard
from berth.ports.ledger import Ledger
from berth.services.zoning.messages.assertions import ZoneAssertion, ZoneAssertionError


class UsedAssertions:
    """Records in the ledger that an assertion was used, so that no other process accepts it.

    `AssertionVerifier` remembers the nonces that its own process has seen. That costs nothing, but
    a recorded request could be replayed once to each other process. The ledger keeps a record for
    an hour, far longer than an assertion is valid.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def record(self, assertion: ZoneAssertion) -> None:
        """Record an assertion that this process has verified.

        Raises:
            ZoneAssertionError: another process has accepted the assertion.
            UnavailableError: the ledger cannot be reached.
        """
        # The parent chooses the nonce, so only its digest may become part of a key.
        nonce = hashlib.sha256(assertion.nonce.encode()).hexdigest()
        # The first unit with an exclusive guard is committed, and all others are rejected.
        guard = Guard(f"assertion {assertion.parent} {nonce}", seen=0)
        (outcome,) = await self._ledger.commit([(guard,)])
        if not isinstance(outcome, Committed):
            raise ZoneAssertionError("it has already been used; sign a new one for each request")
