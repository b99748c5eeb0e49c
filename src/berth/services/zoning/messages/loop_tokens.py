"""Loop prevention tokens, by which a zone recognises its own orders that come back to it.

Zones are meant to form a tree, but nothing keeps two zones from being children of each other. Each
zone that passes an order on adds a token that only it can read. Messages carry the tokens in the
field `marks`. A list of zone names would do the same, but would reveal the tree to all zones in it.
"""

from collections.abc import Sequence
from typing import Final

from berth.domain.errors import InvalidInputError
from berth.services.crypto.sealing import OVERHEAD_BYTES, Sealer
from berth.services.zoning.messages.message_parts import bytes_of, check_count

# A token is a sealed empty text, so it consists of only the nonce and the authentication tag.
LOOP_TOKEN_BYTES: Final = OVERHEAD_BYTES
_PURPOSE: Final = "zone mark"
# The maximum number of tokens in an order. It exceeds the number of layers that fit into the
# longest offer, so no valid order has more.
_MARKS_MAX: Final = 64


class LoopTokens:
    """Makes and recognises the loop tokens of one zone.

    Args:
        sealer: seals with the zone's keys, which all of its processes share.
    """

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer

    def new(self) -> bytes:
        """Return a new token of this zone; no two are equal, so tokens cannot be correlated."""
        return self._sealer.seal_bytes(_PURPOSE, b"")

    def is_among(self, marks: Sequence[bytes]) -> bool:
        """Return whether one of the tokens is from this zone."""
        return any(self._sealer.unseal_bytes(_PURPOSE, one) is not None for one in marks)


def read_loop_tokens(name: str, texts: Sequence[str]) -> tuple[bytes, ...]:
    """Return the loop tokens in a message.

    Raises:
        InvalidInputError: a string does not have the form of a token, or there are too many of
            them; `name` is their field.
    """
    check_count(name, len(texts), 0, _MARKS_MAX)
    marks = tuple(bytes_of(name, one) for one in texts)
    if any(len(one) != LOOP_TOKEN_BYTES for one in marks):
        raise InvalidInputError(name, f"each item must encode {LOOP_TOKEN_BYTES} bytes")
    return marks
