"""Discrepancies: what an audit of the ledger finds that should not be so."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from berth.domain.compute.host import HostNotice
from berth.domain.inventory.allocation import ConsumerAllocations
from berth.domain.ledger.record import Kind


class DiscrepancyCode(StrEnum):
    """The kinds of discrepancies; programs may rely on them."""

    ORPHANED_ALLOCATION = "orphaned_allocation"
    """Room is held by nobody: no instance on a host, and no move that goes on."""
    MISSING_ALLOCATION = "missing_allocation"
    """An instance is on a host and holds nothing, so its room is given away."""
    ALLOCATION_ELSEWHERE = "allocation_elsewhere"
    """An instance holds room of providers other than those that it needs it of."""
    ALLOCATION_DIFFERS = "allocation_differs"
    """An instance holds other amounts than it needs."""
    USAGE_DIFFERS = "usage_differs"
    """What counts as used of a provider is not the sum of what is held of it."""
    OVER_CAPACITY = "over_capacity"
    """More of a provider is used than there is."""
    MOVE_STALLED = "move_stalled"
    """A move waits for a host whose service is down, or not there."""
    MOVE_LEFT_BEHIND = "move_left_behind"
    """A host has not yet cleared away what a move left there, which keeps its room."""
    MOVE_FORGOTTEN = "move_forgotten"
    """A move goes on for an instance that is not in the midst of it, so nobody works on it."""
    TASK_STUCK = "task_stuck"
    """The task of an instance has stood for long."""
    REQUEST_WAITS = "request_waits"
    """A pending request has waited for long."""
    HOST_MISSING = "host_missing"
    """An instance is on a host that is not there."""
    GROUP_BROKEN = "group_broken"
    """The members of a server group break its hard policy."""
    DISKS_UNKNOWN = "disks_unknown"
    """An instance was shelved and left its host, and nobody knows where its disks are."""
    ORPHAN_GUEST = "orphan_guest"
    """A guest is on a host that nobody knows; its agent has seen it."""
    ORPHAN_FILES = "orphan_files"
    """Files of a guest are on a host that nobody has a record of; its agent has seen them."""
    ORPHAN_DISKS = "orphan_disks"
    """A host has stored disks of an instance that nobody knows; its agent has seen them."""


_OF_AGENTS: Final = frozenset(
    {
        DiscrepancyCode.ORPHAN_GUEST,
        DiscrepancyCode.ORPHAN_FILES,
        DiscrepancyCode.ORPHAN_DISKS,
    }
)


class Repair(StrEnum):
    """What an audit may do about a discrepancy."""

    FREE = "free"
    """Free all that the consumer holds."""
    CLAIM = "claim"
    """Claim what the instance needs where it is, if there is room."""


@dataclass(frozen=True, slots=True)
class RepairOutcome:
    """What came of mending: in which version of the ledger it was done, None if it was not."""

    text: str
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """One thing that should not be so.

    `kind` and `key` name the record that it is about. `since_s` is Unix seconds, None when
    nobody knows. `lost` is what nobody can use because of it, by resource class. `held` and
    `needed` are amounts by provider and class where it is about those. `mend` is what the audit
    would do about it, None when that is left to people: `advice` says what they can do.
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
    def is_mended(self) -> bool:
        """It is so no longer."""
        return self.outcome is not None and self.outcome.version is not None

    @property
    def is_told_by_agent(self) -> bool:
        """Only the agent of the host can see it."""
        return self.code in _OF_AGENTS


@dataclass(frozen=True, slots=True)
class AuditAges:
    """What is younger is not told of, in seconds.

    `grace_s` is for what has just begun, `task_s` for tasks and what moves have left behind,
    `request_s` for pending requests.
    """

    grace_s: float = 60.0
    task_s: float = 900.0
    request_s: float = 300.0


@dataclass(frozen=True, slots=True)
class AuditScope:
    """How much an audit has looked at."""

    hosts: int
    providers: int
    instances: int
    migrations: int
    consumers: int
    pending_requests: int


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What an audit has found in the ledger as of `version`.

    `others` are consumers that clients of the Placement API have made for what Berth does not
    know: theirs to look after, and no discrepancy. Of them at most a thousand are named;
    `others_total` counts all. `is_cut` says that there were more discrepancies than it tells.
    `mended_by_agents` is what the agents of hosts have mended by themselves lately, by host.
    """

    version: int
    audited_at_s: float
    audited: AuditScope
    discrepancies: tuple[Discrepancy, ...]
    lost: Mapping[str, int]
    """What the discrepancies that are not mended take from everybody, by resource class."""
    others: tuple[ConsumerAllocations, ...] = ()
    others_total: int = 0
    is_cut: bool = False
    mended_by_agents: Mapping[str, tuple[HostNotice, ...]] = field(
        default_factory=dict[str, tuple[HostNotice, ...]]
    )
