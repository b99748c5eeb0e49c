"""The attestation service: what vouches for the integrity of machines."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from berth.domain.compute.host import Attestation


class Attester(Protocol):
    """Asks an attestation service. A machine never speaks for itself here."""

    @property
    def valid_s(self) -> float:
        """For how many seconds an attestation counts at most."""
        ...

    async def attest(self, nodes: Sequence[str]) -> Mapping[str, Attestation]:
        """Ask about machines by the names of their nodes, a hundred at most.

        Returns:
            An attestation of each node that the service knows; others are left out, and what
            was not asked for is never there.

        Raises:
            UnavailableError: it cannot be reached, or its answer cannot be read.
        """
        ...
