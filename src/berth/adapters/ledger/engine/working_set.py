"""The working set of a batch: the state loaded for its units, and what they have changed so far.

A ledger loads the keys named by `required_keys` into a `WorkingSet`, passes it to `apply_units`,
and then stores its `ChangeSet`. Every change goes through a `UnitTransaction`, so that a rejected
unit leaves no trace.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple, Self, TypeVar

from berth.domain.compute.quota import Footprint
from berth.domain.inventory.allocation import Consumer
from berth.domain.inventory.resources import Inventory
from berth.domain.ledger.change import Change, Event, HostsAlive, Usage
from berth.domain.ledger.record import Kind, Record
from berth.domain.ledger.write import Committed, Unit

K = TypeVar("K")
V = TypeVar("V")

Ref = tuple[Kind, str]
HeldAmounts = Mapping[str, Mapping[str, int]]
"""The amounts that a consumer holds, by resource class, by provider UUID."""

_MISSING: Final = object()


class InventoryLimits(NamedTuple):
    """The limits of one inventory against which claims are checked, in the unit of its class."""

    capacity: int
    unit_max: int
    min_unit: int
    step_size: int

    @classmethod
    def of(cls, inventory: Inventory) -> Self:
        """Return the limits of an inventory."""
        return cls(
            capacity=inventory.capacity,
            unit_max=inventory.unit_max,
            min_unit=inventory.min_unit,
            step_size=inventory.step_size,
        )

    def allow(self, amount: int) -> bool:
        """Return whether one allocation may have this amount, regardless of usage."""
        _, unit_max, min_unit, step_size = self
        return min_unit <= amount <= unit_max and amount % step_size == 0


@dataclass(slots=True)
class ProviderCapacity:
    """The limits and the usage of a provider, by resource class of its inventories.

    The mapping `used` is replaced and never changed in place, so a reader may keep it. `generation`
    increases with writes of the provider's record and with allocations from the provider.
    """

    generation: int
    limits: Mapping[str, InventoryLimits]
    used: Mapping[str, int]

    def left(self, name: str) -> int:
        """Return the free amount of a class, which is negative if usage exceeds capacity."""
        return self.limits[name].capacity - self.used[name]

    def fits(self, amounts: Mapping[str, int]) -> bool:
        """Return whether these amounts, by class, fit as one allocation."""
        all_limits, used = self.limits, self.used
        for name, amount in amounts.items():
            limits = all_limits.get(name)
            if limits is None:
                return False
            capacity, unit_max, min_unit, step_size = limits
            if not min_unit <= amount <= unit_max or amount % step_size:
                return False
            if amount > capacity - used[name]:
                return False
        return True


def exclusive_guard_key(name: str) -> str:
    """Return the key under which the version of a guard's latest exclusive use is stored.

    Guards are stored among the claim keys, and expire like them (docs/adr/0007-guards.md).
    """
    # The control character distinguishes the key from claim keys, which consist of UUIDs and
    # request ids.
    return f"\x1fguard:{name}"


def shared_guard_key(name: str) -> str:
    """Return the key under which the version of a guard's latest shared use is stored."""
    return f"\x1fshared:{name}"


@dataclass(slots=True)
class RequiredKeys:
    """The keys of everything that must be loaded before a batch can be applied.

    Providers from which these consumers hold something are required as well; only the store can
    find them.
    """

    claim_keys: set[str] = field(default_factory=set[str])
    records: dict[Kind, set[str]] = field(default_factory=dict[Kind, set[str]])
    providers: set[str] = field(default_factory=set[str])
    consumers: set[str] = field(default_factory=set[str])
    projects: set[str] = field(default_factory=set[str])
    """Projects whose quota is checked."""

    def record(self, kind: Kind, key: str) -> None:
        """Require the existence and the revision of a record."""
        self.records.setdefault(kind, set()).add(key)


@dataclass(slots=True)
class ChangeSet:
    """Everything that a batch has changed, for the adapter to store."""

    puts: dict[Ref, Record | None] = field(default_factory=dict[Ref, Record | None])
    """The last state of each changed record, or None if the record was removed."""
    born: dict[str, None] = field(default_factory=dict[str, None])
    """Instances that the batch added, including those that it removed again."""
    used_before: dict[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    """The usage, before the batch, of each provider whose usage the batch changed."""
    freed: dict[str, None] = field(default_factory=dict[str, None])
    """Consumers whose stored allocations must be deleted."""
    taken: dict[str, None] = field(default_factory=dict[str, None])
    """Consumers whose current allocations must be inserted after the deletion for `freed`."""
    seen: dict[str, float] = field(default_factory=dict[str, float])
    """Heartbeats by host, in Unix seconds; they override the services in `puts`."""
    claimed: dict[str, int] = field(default_factory=dict[str, int])
    """The versions of new claim keys."""
    guarded: dict[str, int] = field(default_factory=dict[str, int])
    """The newest versions of guards, by `exclusive_guard_key` or `shared_guard_key`."""
    changes: list[Change] = field(default_factory=list[Change])
    """The changes for the feed, in order."""


@dataclass(slots=True)
class WorkingSet:
    """The loaded part of the ledger, as updated by the batch, and the changes of the batch.

    `version` is the version of the latest committed unit. A loaded key that is missing from its
    mapping does not exist in the ledger. `revisions` contains the revision of an instance, and 1
    for any other record except providers and consumers, which have mappings of their own.
    """

    version: int = 0
    claimed: dict[str, int] = field(default_factory=dict[str, int])
    revisions: dict[Ref, int] = field(default_factory=dict[Ref, int])
    capacities: dict[str, ProviderCapacity] = field(default_factory=dict[str, ProviderCapacity])
    held: dict[str, HeldAmounts] = field(default_factory=dict[str, HeldAmounts])
    consumers: dict[str, Consumer] = field(default_factory=dict[str, Consumer])
    counted: dict[str, dict[str, Footprint]] = field(
        default_factory=dict[str, dict[str, Footprint]]
    )
    """The footprints of instances by project and key, for the projects that are counted."""
    sums: dict[str, Footprint] = field(default_factory=dict[str, Footprint])
    """The sum of the footprints of each counted project."""
    change_set: ChangeSet = field(default_factory=ChangeSet)

    def spent(self, change_set: ChangeSet) -> list[tuple[str, str, int, int]]:
        """Return the batch's changes of usage, as rows of (provider, class, difference, used).

        Unchanged classes are left out, except one class of a provider without any change, whose row
        carries the new generation. Providers that were put or removed are left out, because their
        usage is stored with them.
        """
        rows: list[tuple[str, str, int, int]] = []
        puts, capacities = change_set.puts, self.capacities
        for uuid, before in change_set.used_before.items():
            if (Kind.PROVIDER, uuid) in puts:
                continue
            count, now = len(rows), capacities[uuid].used
            for name, used in now.items():
                if used != (was := before.get(name, 0)):
                    rows.append((uuid, name, used - was, used))
            if len(rows) == count:
                rows += [(uuid, name, 0, used) for name, used in islice(now.items(), 1)]
        return rows

    def generations(self, spent: Iterable[tuple[str, str, int, int]]) -> list[int]:
        """Return the generation of the provider of each row returned by `spent`."""
        capacities = self.capacities
        return [capacities[row[0]].generation for row in spent]

    def take_changes(self) -> ChangeSet:
        """Return the batch's changes and start with an empty change set."""
        change_set, self.change_set = self.change_set, ChangeSet()
        return change_set


class UnitTransaction:
    """Applies one unit to the working set. Until it is committed, its changes can be undone.

    Attributes:
        working_set: the state that the unit changes.
        unit: the unit.
        events: the events that the change feed delivers for the unit, in order.
        counted: the footprint before the unit of each project whose footprint the unit changes.
    """

    __slots__ = ("_raised", "_touched", "_undo", "counted", "events", "unit", "working_set")

    def __init__(self, working_set: WorkingSet, unit: Unit) -> None:
        self.working_set = working_set
        self.unit = unit
        self._undo: list[tuple[dict[Any, Any], Any, Any]] = []
        self.events: list[Event] = []
        self._touched: dict[str, tuple[ProviderCapacity, Mapping[str, int], int]] = {}
        self._raised: set[str] = set()
        self.counted: dict[str, Footprint] = {}

    @property
    def version(self) -> int:
        """The version that the unit gets if it is committed."""
        return self.working_set.version + 1

    def set(self, mapping: dict[K, V], key: K, value: V) -> None:
        """Set an entry of a mapping; `undo` restores the old value."""
        self._undo.append((mapping, key, mapping.get(key, _MISSING)))
        mapping[key] = value

    def drop(self, mapping: dict[K, V], key: K) -> None:
        """Remove an entry of a mapping if it exists; `undo` restores it."""
        if key in mapping:
            self._undo.append((mapping, key, mapping.pop(key)))

    def spend(
        self, provider_uuid: str, amounts: Mapping[str, int], *, raises: bool = False
    ) -> None:
        """Add amounts, which may be negative, to the usage of a provider by class.

        `raises` also increments the generation of the provider, at most once per unit.
        """
        capacity, used_before = (
            self.working_set.capacities[provider_uuid],
            self.working_set.change_set.used_before,
        )
        if provider_uuid not in self._touched:
            # Usage is an attribute of an object and not an entry of a mapping, so the undo log
            # cannot hold its old value.
            self._touched[provider_uuid] = (capacity, capacity.used, capacity.generation)
            if provider_uuid not in used_before:
                self.set(used_before, provider_uuid, capacity.used)
        used = dict(capacity.used)
        for name, amount in amounts.items():
            used[name] += amount
        capacity.used = used
        if raises and amounts and provider_uuid not in self._raised:
            self._raised.add(provider_uuid)
            capacity.generation += 1

    def undo(self) -> None:
        """Restore the state from before the unit."""
        for capacity, used, generation in self._touched.values():
            capacity.used, capacity.generation = used, generation
        # The newest change is undone first, so that an entry that was set twice gets its oldest
        # value.
        for mapping, key, old in reversed(self._undo):
            if old is _MISSING:
                del mapping[key]
            else:
                mapping[key] = old

    def commit(self) -> Committed:
        """Commit the unit: give it the next version, and append its changes to the feed.

        Usage comes last, once per provider, so that followers see a record before its usage. A unit
        without changes for followers yields `NO_CHANGE`, so that every version is in the feed
        (docs/adr/0003-change-feed-order.md).
        """
        working_set = self.working_set
        capacities = working_set.capacities
        events = self.events
        for uuid in self._touched:
            capacity = capacities.get(uuid)
            # A provider that the unit removed has no usage to report.
            if capacity is not None:
                events.append(Usage(uuid, capacity.used, capacity.generation))
        version = working_set.version = working_set.version + 1
        changes = working_set.change_set.changes
        changes.extend([Change(version, event) for event in events or (NO_CHANGE,)])
        return Committed(version)


NO_CHANGE: Final = HostsAlive(hosts=(), at_s=0.0)
"""The event of a version that changed nothing that followers keep."""
