"""Ring marks: how a zone knows an order for its own, when it comes back over its children.

Zones are meant to be a tree, but nothing keeps two of them from being children of each other. Each
zone on the way of a select adds a mark that it alone can read.
"""

from collections.abc import Sequence
from typing import Final

from berth.domain.errors import InvalidInputError
from berth.services.crypto.sealing import OVERHEAD_BYTES, Sealer
from berth.services.zoning.messages.message_parts import bytes_of, check_range

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


_MARKS_MAX = 64
"""More than layers fit into the longest blob."""


def read_loop_tokens(name: str, texts: Sequence[str]) -> tuple[bytes, ...]:
    """Read the marks of zones; see `RingMarks`.

    Raises:
        InvalidInputError: they are no marks, or more than there could be; `name` is their field.
    """
    check_range(name, len(texts), 0, _MARKS_MAX)
    marks = tuple(bytes_of(name, one) for one in texts)
    if any(len(one) != LOOP_TOKEN_BYTES for one in marks):
        raise InvalidInputError(name, f"must be marks of zones, of {LOOP_TOKEN_BYTES} bytes each")
    return marks
