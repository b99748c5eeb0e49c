"""Writes: the operations of the ledger, and their outcomes.

A unit is a tuple of writes that take effect together or not at all. Every committed unit gets a
version, one above the previous; versions define the order of all changes.
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
    """Insert a record, like `Put`. The unit is rejected if the record already exists."""

    record: Record


@dataclass(frozen=True, slots=True)
class Put:
    """Insert or replace a record.

    Three kinds have rules of their own. An Instance is replaced only if its `revision` equals the
    stored one, and inserted only with revision 0; it is stored with its revision incremented. A
    replaced Provider keeps its stored `used`, and its generation is incremented; a class that is in
    use but no longer reported keeps an inventory with total 0, so no usage is lost. A Consumer is
    rejected, because only writes that change allocations store consumers.
    """

    record: Record


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove a record. The unit is rejected if the record does not exist or is in use.

    Providers and instances are in use while they have allocations. The host of a provider must be
    removed before the provider or in the same unit. A Consumer is rejected, as by `Put`.
    """

    kind: Kind
    key: str


@dataclass(frozen=True, slots=True)
class Take:
    """Commit a claim. The unit is rejected if a provider cannot provide an amount (`Shortage`)."""

    claim: Claim


@dataclass(frozen=True, slots=True)
class Free:
    """Release all allocations of a consumer.

    The unit is rejected if the consumer holds nothing and `must_hold` is set. The generations of
    providers do not change.
    """

    consumer_uuid: str
    must_hold: bool = False


@dataclass(frozen=True, slots=True)
class ReplaceProvider:
    """Replace an existing provider, as the Placement API does.

    The stored `used` is kept, and `raises` is added to the generation. The unit is rejected if
    the provider does not exist, if its stored generation differs from `generation` (None matches
    any), or if the record omits a class that is in use.
    """

    record: Provider
    generation: int | None = None
    raises: int = 1


@dataclass(frozen=True, slots=True)
class ConsumerUpdate:
    """The complete new allocations of one consumer; if empty, the consumer then holds nothing.

    Args:
        consumer: the record to store; its `generation` is ignored.
        allocations: amounts by provider and class.
        seen: the consumer's generation as read by the caller; None if it must not exist.
        is_checked: whether to compare `seen` with the stored generation.
        keeps_type: whether a stored consumer type takes precedence.
    """

    consumer: Consumer
    allocations: Mapping[str, Mapping[str, int]]
    seen: int | None = None
    is_checked: bool = True
    keeps_type: bool = False


@dataclass(frozen=True, slots=True)
class Reallocate:
    """Replace the allocations of several consumers together.

    The capacity freed by their previous allocations is available to the new ones. A class whose
    usage is above its capacity is accepted as long as the usage does not grow.
    """

    shares: tuple[ConsumerUpdate, ...]


@dataclass(frozen=True, slots=True)
class TransferAllocations:
    """Transfer all allocations from one consumer to another.

    Usage does not change, so no capacity is free in between. If `consumer_uuid` holds nothing, the
    unit is rejected if `must_hold` is set; otherwise the write has no effect. The unit is also
    rejected if `to` already holds something. `to` is stored with generation 1, whatever its own
    `generation`, unless it is an instance, which needs no record.
    """

    consumer_uuid: str
    to: Consumer
    must_hold: bool = True


@dataclass(frozen=True, slots=True)
class Heartbeats:
    """Record that the agents of these hosts were alive at `at_s` (Unix seconds).

    Hosts without a service record are ignored.
    """

    hosts: tuple[str, ...]
    at_s: float


@dataclass(frozen=True, slots=True)
class Guard:
    """Reject the unit if another unit with the same guard was committed after version `seen`.

    A decision that depends on more than its own records (the members of a server group, the set of
    names in use) adds a guard that names what it read and the version at which it read it. Of two
    concurrent decisions with the same guard, the second is rejected as stale and must be made again
    (docs/adr/0007-guards.md).

    Shared guards do not conflict with each other: a shared guard conflicts with earlier exclusive
    ones, and an exclusive guard with any earlier one.
    """

    name: str
    seen: int
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class QuotaCheck:
    """Reject the unit if it increases the footprint of a project beyond the limits.

    The check must come after the writes that it covers. Only amounts that the unit increases are
    compared, so a project above a lowered limit may still shrink (docs/adr/0024-quotas.md).
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
"""Any write."""
Unit = tuple[Write, ...]
"""Writes that take effect together or not at all."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The unit, or an earlier one with the same claim key, took effect as `version`.

    `repeated` means that the earlier unit took effect and that this one changed nothing.
    """

    version: int
    repeated: bool = False


class RejectionCause(StrEnum):
    """The difference between a stored record and the expectation of a write."""

    MISSING = "missing"
    GENERATION = "generation"
    """The provider has another generation."""
    CONSUMER_GENERATION = "consumer_generation"
    """The consumer has another generation, exists unexpectedly, or does not exist."""
    IN_USE = "in_use"
    """The provider has allocations of classes that the write removes."""
    NOT_HELD = "not_held"
    """The consumer holds nothing."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Nothing of the unit took effect, for one of the following reasons.

    `shortages`: capacity was insufficient. `conflict`: the description of a record that was not as
    expected; `cause`, if set, classifies it, with `subject` the key of the record, `actual` its
    generation (None if there is no such record), and `names` the classes in use. `stale`: a guard
    rejected the unit, so the caller must read again and decide again. `excess`: the exceeded limits
    of a project.
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
"""The outcome of a unit."""
