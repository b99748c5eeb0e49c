"""The attestation service, which vouches for the integrity of machines."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from berth.domain.compute.host import Attestation


class Attester(Protocol):
    """A client of an attestation service."""

    @property
    def valid_s(self) -> float:
        """The maximum validity of an attestation in seconds."""
        ...

    async def attest(self, nodes: Sequence[str]) -> Mapping[str, Attestation]:
        """Return the attestations of at most 100 machines.

        Args:
            nodes: the node names of the machines.

        Returns:
            The attestations by node name; nodes that the service does not know are left out.

        Raises:
            UnavailableError: the service cannot be reached, or its answer is invalid.
        """
        ...
