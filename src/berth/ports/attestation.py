"""The attestation service, which vouches for the integrity of machines."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from berth.domain.compute.host import Attestation


class Attester(Protocol):
    """A client of an attestation service. A machine cannot attest itself."""

    @property
    def valid_s(self) -> float:
        """The maximum validity of an attestation in seconds."""
        ...

    async def attest(self, nodes: Sequence[str]) -> Mapping[str, Attestation]:
        """Return the attestations of machines, given by their node names, at most 100.

        Returns:
            The attestations by node name, only of requested nodes that the service knows.

        Raises:
            UnavailableError: the service cannot be reached, or its answer is invalid.
        """
        ...
