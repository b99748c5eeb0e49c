"""What a decision may rest on, once the lists of instances that were in doubt are settled."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Settled:
    """Hosts that a decision has to leave out, by name, and how new what it reads is.

    `seen` is the version of the ledger up to which the members of the request's server group are
    known for certain; None when that is the version of the table, as it is with the feed.
    """

    left_out: frozenset[str] = frozenset()
    seen: int | None = None


NOTHING_LEFT_OUT: Final = Settled()
