"""Attestations: what an attestation service says of a machine's integrity, and until when."""

import math
from dataclasses import dataclass

from berth.domain.errors import InvalidInputError

UNKNOWN_LEVEL = "unknown"
"""The level of a machine that is not attested, or no longer (nova-behaviour.md 2.6)."""


@dataclass(frozen=True, slots=True)
class Attestation:
    """The level of one machine (`trusted`, `untrusted`, ...), until `valid_until_s`, Unix seconds.

    Machines do not speak for themselves here: only who asks the attestation service writes it.
    """

    level: str
    valid_until_s: float

    def __post_init__(self) -> None:
        """Refuse an end that is no time.

        Raises:
            InvalidInputError: naming the field.
        """
        if not math.isfinite(self.valid_until_s):
            raise InvalidInputError("valid_until_s", f"{self.valid_until_s} is not a finite number")

    def level_at(self, now_s: float) -> str:
        """Return the level that counts at a time: `unknown` when it has run out."""
        return self.level if now_s <= self.valid_until_s else UNKNOWN_LEVEL
