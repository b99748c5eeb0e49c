"""Discrepancies: the inconsistencies that an audit of the ledger finds, and their repairs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from berth.domain.compute.host import HostNotice
from berth.domain.inventory.allocation import ConsumerAllocations
from berth.domain.ledger.record import Kind


class DiscrepancyCode(StrEnum):
    """The kind of a discrepancy; the values are stable, so programs may depend on them."""

    ORPHANED_ALLOCATION = "orphaned_allocation"
    """A consumer holds allocations although it has no instance on a host and no move in progress.
    """
    MISSING_ALLOCATION = "missing_allocation"
    """An instance is on a host but holds no allocations, so its capacity may be given to others."""
    ALLOCATION_ELSEWHERE = "allocation_elsewhere"
    """An instance holds allocations on providers that it does not use."""
    ALLOCATION_DIFFERS = "allocation_differs"
    """An instance holds amounts that differ from its needs."""
    USAGE_DIFFERS = "usage_differs"
    """The stored usage of a provider is not the sum of the allocations on it."""
    OVER_CAPACITY = "over_capacity"
    """The usage of a provider exceeds its capacity."""
    MOVE_STALLED = "move_stalled"
    """A move waits for a host whose service is down or missing."""
    MOVE_LEFT_BEHIND = "move_left_behind"
    """A host has not cleaned up after a move, so capacity there is still held."""
    MOVE_FORGOTTEN = "move_forgotten"
    """A move is in progress, but its instance no longer refers to it, so no agent continues it."""
    TASK_STUCK = "task_stuck"
    """The task of an instance has been in progress for longer than `AuditAges.task_s`."""
    REQUEST_WAITS = "request_waits"
    """A pending request has waited for a decision for longer than `AuditAges.request_s`."""
    HOST_MISSING = "host_missing"
    """An instance is on a host that has no record."""
    GROUP_BROKEN = "group_broken"
    """The members of a server group violate its hard policy."""
    OUTSIDE_ZONE = "outside_zone"
    """An instance is on a host outside the availability zone that it asked for."""
    DISKS_UNKNOWN = "disks_unknown"
    """An instance was shelved and left its host, but the address of its disks is not recorded."""
    ORPHAN_GUEST = "orphan_guest"
    """A host runs a guest of an unknown instance; reported by its agent."""
    ORPHAN_FILES = "orphan_files"
    """A host has files of an unknown instance; reported by its agent."""
    ORPHAN_DISKS = "orphan_disks"
    """A host has stored disks of an unknown instance; reported by its agent."""


# The ledger alone cannot reveal these, because only the driver on the host sees guests and files.
_OF_AGENTS: Final = frozenset(
    {
        DiscrepancyCode.ORPHAN_GUEST,
        DiscrepancyCode.ORPHAN_FILES,
        DiscrepancyCode.ORPHAN_DISKS,
    }
)


class Repair(StrEnum):
    """A repair that an audit can make."""

    FREE = "free"
    """Free all allocations of the consumer."""
    CLAIM = "claim"
    """Claim the amounts that the instance needs on its host, if the capacity suffices."""


@dataclass(frozen=True, slots=True)
class RepairOutcome:
    """The outcome of a repair in words, and the version that made it; None if it was not made."""

    text: str
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """One inconsistency that an audit found.

    `kind` and `key` identify the record concerned. `since_s` is Unix seconds, or None if unknown.
    `lost` are the amounts that no instance can use because of the discrepancy, by resource class.
    `held` and `needed` are amounts by provider and class, if the discrepancy concerns allocations.
    `mend` is the repair that an audit can make; None if the discrepancy requires an operator.
    `advice` is for operators.
    """

    code: DiscrepancyCode
    kind: Kind
    key: str
    text: str
    advice: str
    host: str | None = None
    since_s: float | None = None
    lost: Mapping[str, int] = field(default_factory=dict[str, int])
    held: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    needed: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    mend: Repair | None = None
    outcome: RepairOutcome | None = None

    @property
    def is_repaired(self) -> bool:
        """Whether the audit has repaired the discrepancy."""
        return self.outcome is not None and self.outcome.version is not None

    @property
    def is_reported_by_agent(self) -> bool:
        """Whether only the agent of a host can detect such a discrepancy."""
        return self.code in _OF_AGENTS


@dataclass(frozen=True, slots=True)
class AuditAges:
    """The ages, in seconds, from which an audit reports irregularities.

    `grace_s` applies to most irregularities, `task_s` to tasks and to the leftovers of moves on
    hosts that are up, and `request_s` to pending requests. Younger irregularities are usually
    operations in progress.
    """

    grace_s: float = 60.0
    task_s: float = 900.0
    request_s: float = 300.0


@dataclass(frozen=True, slots=True)
class AuditScope:
    """The number of records that an audit examined, by kind."""

    hosts: int
    providers: int
    instances: int
    migrations: int
    consumers: int
    pending_requests: int


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The findings of an audit of the ledger as of `version`.

    `others` are consumers that clients of the Placement API created for resources that Berth does
    not manage; they are not discrepancies. At most 1,000 are listed; `others_total` counts all.
    `is_cut` means that the list of discrepancies is incomplete. `mended_by_agents` maps host names
    to the latest repairs of their agents.
    """

    version: int
    audited_at_s: float
    audited: AuditScope
    discrepancies: tuple[Discrepancy, ...]
    lost: Mapping[str, int]
    """Amounts made unusable by the discrepancies that are not repaired, by resource class."""
    others: tuple[ConsumerAllocations, ...] = ()
    others_total: int = 0
    is_cut: bool = False
    mended_by_agents: Mapping[str, tuple[HostNotice, ...]] = field(
        default_factory=dict[str, tuple[HostNotice, ...]]
    )
