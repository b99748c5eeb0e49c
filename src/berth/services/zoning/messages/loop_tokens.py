"""Ring marks: how a zone knows an order for its own, when it comes back over its children.

Zones are meant to be a tree, but nothing keeps two of them from being children of each other. Each
zone on the way of a select adds a mark that it alone can read.
"""

from collections.abc import Sequence
from typing import Final

from berth.services.crypto.sealing import OVERHEAD_BYTES, Sealer

LOOP_TOKEN_BYTES: Final = OVERHEAD_BYTES
_PURPOSE: Final = "zone mark"


class LoopTokens:
    """Makes and knows the marks of one zone.

    Args:
        sealer: has the zone's keys, which all of its processes share.
    """

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer

    def new(self) -> bytes:
        """Return a mark of this zone, each time another: nothing, sealed."""
        return self._sealer.seal_bytes(_PURPOSE, b"")

    def is_among(self, marks: Sequence[bytes]) -> bool:
        """Tell whether one of the marks is of this zone."""
        return any(self._sealer.unseal_bytes(_PURPOSE, one) is not None for one in marks)
