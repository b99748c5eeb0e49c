"""Writes: what may be asked of the ledger, and how it answers.

A unit is a tuple of writes that take effect together or not at all. The ledger gives each
committed unit a version of its own, one above the last; versions order everything.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from berth.domain.compute.quota import Excess, Footprint
from berth.domain.inventory.allocation import Claim, Consumer, Shortage
from berth.domain.inventory.provider import Provider
from berth.domain.ledger.record import Kind, Record


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
    A Consumer is refused: only `Reallocate` makes them.
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
    """Release all that a consumer holds; freeing nothing is an error only with `must_hold`.

    Generations of providers stay as they are.
    """

    consumer_uuid: str
    must_hold: bool = False


@dataclass(frozen=True, slots=True)
class ReplaceProvider:
    """Replace a provider that is there, as the Placement API does.

    It keeps its stored `used`, and its generation is raised by `raises`. The unit is refused
    when the stored generation is not `generation` (None: whatever it is), or when a class that
    is in use is left out.
    """

    record: Provider
    generation: int | None = None
    raises: int = 1


@dataclass(frozen=True, slots=True)
class ConsumerUpdate:
    """All that one consumer is to hold from now on; nothing at all frees it.

    Args:
        consumer: as it is to be stored; its `generation` is ignored.
        allocations: amounts by provider and class.
        seen: the generation that the caller has seen; None says that there must be no such
            consumer.
        is_checked: without it, whatever generation there is will do.
        keeps_type: a type that is stored already stays.
    """

    consumer: Consumer
    allocations: Mapping[str, Mapping[str, int]]
    seen: int | None = None
    is_checked: bool = True
    keeps_type: bool = False


@dataclass(frozen=True, slots=True)
class Reallocate:
    """Replace what some consumers hold, all together.

    What they held before is room for what they are to hold. A class may stay above its capacity
    as long as no more of it is used than before.
    """

    shares: tuple[ConsumerUpdate, ...]


@dataclass(frozen=True, slots=True)
class TransferAllocations:
    """Have a consumer hold all that another one holds, which is left with nothing.

    What is used stays as it is. When `consumer_uuid` holds nothing, nothing is done, or with
    `must_hold` the unit is refused; it is, too, when there is something for a `to` that holds
    something already. `to` is stored at generation 1, but for an instance, which needs no
    record; its own `generation` is ignored.
    """

    consumer_uuid: str
    to: Consumer
    must_hold: bool = True


@dataclass(frozen=True, slots=True)
class Heartbeats:
    """Heartbeats: the agents of these hosts were alive at `at_s` (Unix seconds)."""

    hosts: tuple[str, ...]
    at_s: float


@dataclass(frozen=True, slots=True)
class Guard:
    """Refuse the unit when another one under the same guard was committed after `seen`.

    Whoever decides on more than the unit itself holds (the members of a server group, the names
    that are taken) names what it read by a guard, and the version that it read it at. So of two
    that decide at once on the same thing the second is refused as stale, and decides anew.

    Shared uses do not stand in each other's way: one is refused only after an exclusive use, and
    an exclusive one after any.
    """

    name: str
    seen: int
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class QuotaCheck:
    """Refuse the unit when it makes all instances of a project come to more than they may.

    It comes after the writes that it looks at. Only what they make more is compared with the
    limits, so a project above a limit that was lowered may still do what asks for no more.
    """

    project_id: str
    limits: Footprint


Write = (
    Add
    | Put
    | Remove
    | Take
    | Free
    | TransferAllocations
    | Heartbeats
    | Guard
    | ReplaceProvider
    | Reallocate
    | QuotaCheck
)
Unit = tuple[Write, ...]


@dataclass(frozen=True, slots=True)
class Committed:
    """The unit took effect as `version`.

    `repeated` says that its claim key had been committed before, as that version, and nothing
    was done now.
    """

    version: int
    repeated: bool = False


class RejectionCause(StrEnum):
    """What a record was that it should not have been."""

    MISSING = "missing"
    GENERATION = "generation"
    """Of a provider."""
    CONSUMER_GENERATION = "consumer_generation"
    IN_USE = "in_use"
    """Classes of an inventory that have allocations."""
    NOT_HELD = "not_held"
    """The consumer holds nothing."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Nothing of the unit took effect: room was short, or a record was not as expected.

    `stale` says that a guard refused it: read again, decide anew, try again. Where there is a
    `cause`, `subject` is the key of the record, `actual` the generation that it has (None: there
    is no such consumer), and `names` are the classes in use. `excess` is what would be above the
    limits of a project.
    """

    shortages: tuple[Shortage, ...] = ()
    conflict: str | None = None
    stale: bool = False
    cause: RejectionCause | None = None
    subject: str = ""
    actual: int | None = None
    names: tuple[str, ...] = ()
    excess: tuple[Excess, ...] = ()


Outcome = Committed | Rejected
