"""The hosts whose instance lists may be wrong, and the basis of decisions that read instances."""

from dataclasses import dataclass
from typing import Final, NamedTuple

# A number above every version of the ledger: no report settles a doubt that waits for it, and no
# claim is newer.
NEWEST: Final = 2**63 - 1


class _Doubt(NamedTuple):
    """The Unix time since which a list is doubtful, and the version that settles the doubt."""

    at_s: float
    until: int


class DoubtfulLists:
    """The hosts with doubtful instance lists, by name."""

    def __init__(self) -> None:
        self._doubts: dict[str, _Doubt] = {}

    def __bool__(self) -> bool:
        """Return whether any list is doubtful."""
        return bool(self._doubts)

    def __contains__(self, host: str) -> bool:
        """Return whether the list of a host is doubtful."""
        return host in self._doubts

    @property
    def hosts(self) -> frozenset[str]:
        """The names of the hosts with doubtful lists."""
        return frozenset(self._doubts)

    def since(self, at_s: float) -> list[str]:
        """Return the hosts whose lists have been doubtful since `at_s` (Unix seconds) or longer."""
        return [host for host, doubt in self._doubts.items() if doubt.at_s <= at_s]

    def add(self, host: str, now_s: float, until: int = NEWEST) -> None:
        """Mark a list as doubtful since `now_s` (Unix seconds).

        The doubt ends when the list is reloaded, or agrees with a report of its agent at version
        `until` or later.
        """
        old = self._doubts.get(host)
        if old is not None:
            # The older time is kept, because a new doubt must not postpone the reload.
            now_s, until = old.at_s, max(until, old.until)
        self._doubts[host] = _Doubt(now_s, until)

    def agree(self, host: str, version: int) -> None:
        """Settle the doubt about a list that agrees with its agent's report at `version`.

        A doubt that waits for a newer report stays.
        """
        doubt = self._doubts.get(host)
        if doubt is not None and doubt.until <= version:
            del self._doubts[host]

    def end(self, host: str) -> None:
        """Settle the doubt about a list that has been reloaded."""
        self._doubts.pop(host, None)


@dataclass(frozen=True, slots=True)
class DecisionBasis:
    """The names of hosts that a decision must leave out, and the version of the group's members.

    `seen` is the ledger version up to which the members of the request's server group are known.
    None stands for the version of the table.
    """

    left_out: frozenset[str] = frozenset()
    seen: int | None = None


NOTHING_LEFT_OUT: Final = DecisionBasis()
