"""Claiming: the ledger's primitive, for whoever brings decisions of their own."""

from collections.abc import Sequence

from berth.domain.inventory.allocation import Claim
from berth.domain.ledger.write import Outcome, Take
from berth.ports.ledger import Writer


async def claim_many(ledger: Writer, claims: Sequence[Claim]) -> list[Outcome]:
    """Claim in one batch; each claim takes all of its room or nothing.

    `used + amount <= capacity` is checked for every provider and class over the whole batch, in
    one transaction: earlier claims count for later ones.

    Args:
        ledger: where to claim.
        claims: in order; a key that was committed before takes nothing again.

    Returns:
        An outcome for each claim: its version, or what there was too little of.

    Raises:
        UnavailableError: the ledger cannot be reached; claim again with the same keys.
    """
    return await ledger.commit([(Take(claim),) for claim in claims])
