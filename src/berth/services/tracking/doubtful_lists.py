"""Doubts: hosts whose lists of instances may be wrong."""

from dataclasses import dataclass
from typing import Final, NamedTuple

NEWEST: Final = 2**63 - 1
"""Above every version of the ledger."""


class _Doubt(NamedTuple):
    """Since when a list is in doubt, and until its agent tells of which version."""

    at_s: float
    until: int


class DoubtfulLists:
    """The hosts in doubt, by name."""

    def __init__(self) -> None:
        self._doubts: dict[str, _Doubt] = {}

    def __bool__(self) -> bool:
        """Tell whether there are any."""
        return bool(self._doubts)

    def __contains__(self, host: str) -> bool:
        """Tell whether the list of a host is in doubt."""
        return host in self._doubts

    @property
    def hosts(self) -> frozenset[str]:
        """The names of the hosts."""
        return frozenset(self._doubts)

    def since(self, at_s: float) -> list[str]:
        """Return the hosts that are in doubt since a Unix time, or for longer."""
        return [host for host, doubt in self._doubts.items() if doubt.at_s <= at_s]

    def add(self, host: str, now_s: float, until: int = NEWEST) -> None:
        """Doubt the list of a host until its agent tells of that version, or it was read anew."""
        old = self._doubts.get(host)
        if old is not None:
            now_s, until = old.at_s, max(until, old.until)
        self._doubts[host] = _Doubt(now_s, until)

    def agree(self, host: str, version: int) -> None:
        """End a doubt, as the list is what its agent tells of a version."""
        doubt = self._doubts.get(host)
        if doubt is not None and doubt.until <= version:
            del self._doubts[host]

    def end(self, host: str) -> None:
        """End a doubt, as the list was read anew."""
        self._doubts.pop(host, None)

    def forget(self) -> None:
        """End all doubts."""
        self._doubts.clear()


@dataclass(frozen=True, slots=True)
class DecisionBasis:
    """Hosts that a decision has to leave out, by name, and how new what it reads is.

    `seen` is the version of the ledger up to which the members of the request's server group are
    known for certain; None when that is the version of the table, as it is with the feed.
    """

    left_out: frozenset[str] = frozenset()
    seen: int | None = None


NOTHING_LEFT_OUT: Final = DecisionBasis()
