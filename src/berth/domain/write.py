"""Writes: what may be asked of the ledger, and how it answers.

A unit is a tuple of writes that take effect together or not at all. The ledger gives each
committed unit a version of its own, one above the last; versions order everything.
"""

from dataclasses import dataclass

from berth.domain.allocation import Claim, Shortage
from berth.domain.record import Kind, Record


@dataclass(frozen=True, slots=True)
class Add:
    """Put a record that must not exist yet, else the unit is refused."""

    record: Record


@dataclass(frozen=True, slots=True)
class Put:
    """Insert or replace a record.

    Two kinds are special. An Instance that exists is replaced only when `revision` equals the
    stored one; one that does not exist must come with revision 0. Either way it is stored with
    the revision raised by one, so a first save stores 1.
    A Provider keeps its stored `used` and has its generation raised; a class that is in use and
    no longer reported stays, with total 0, so that nothing in use is forgotten.
    """

    record: Record


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove a record; the unit is refused when there is none, or it is still in use.

    A provider is in use while it has allocations; its host goes first or in the same unit.
    """

    kind: Kind
    key: str


@dataclass(frozen=True, slots=True)
class Take:
    """Commit a claim if every provider has room for all of it."""

    claim: Claim


@dataclass(frozen=True, slots=True)
class Free:
    """Release all that a consumer holds; freeing nothing is not an error."""

    consumer_uuid: str


@dataclass(frozen=True, slots=True)
class Seen:
    """Heartbeats: the agents of these hosts were alive at `at_s` (Unix seconds)."""

    hosts: tuple[str, ...]
    at_s: float


@dataclass(frozen=True, slots=True)
class Guard:
    """Refuse the unit when another one under the same guard was committed after `seen`.

    Whoever decides on more than the unit itself holds (the members of a server group, the names
    that are taken) names what it read by a guard, and the version that it read it at. So of two
    that decide at once on the same thing the second is refused as stale, and decides anew.
    """

    name: str
    seen: int


Write = Add | Put | Remove | Take | Free | Seen | Guard
Unit = tuple[Write, ...]


@dataclass(frozen=True, slots=True)
class Committed:
    """The unit took effect as `version`.

    `repeated` says that its claim key had been committed before, as that version, and nothing
    was done now.
    """

    version: int
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Rejected:
    """Nothing of the unit took effect: room was short, or a record was not as expected.

    `stale` says that a guard refused it: read again, decide anew, try again.
    """

    shortages: tuple[Shortage, ...] = ()
    conflict: str | None = None
    stale: bool = False


Outcome = Committed | Rejected
