"""The working set of a batch: the state loaded for its units, and what they have changed so far.

A ledger loads the keys named by `required_keys` into a `WorkingSet`, passes it to `apply_units`,
and then stores its `ChangeSet`. Every change goes through a `UnitTransaction`, so that a refused
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
"""What a consumer holds: amounts by class, by provider uuid."""

_MISSING: Final = object()


class InventoryLimits(NamedTuple):
    """What judging needs to know of one inventory, in the unit of its class."""

    capacity: int
    unit_max: int
    min_unit: int
    step_size: int

    @classmethod
    def of(cls, inventory: Inventory) -> Self:
        """Read the limits off an inventory."""
        return cls(
            capacity=inventory.capacity,
            unit_max=inventory.unit_max,
            min_unit=inventory.min_unit,
            step_size=inventory.step_size,
        )

    def allow(self, amount: int) -> bool:
        """Tell whether one allocation may ask for so much, whatever is used."""
        _, unit_max, min_unit, step_size = self
        return min_unit <= amount <= unit_max and amount % step_size == 0


@dataclass(slots=True)
class ProviderCapacity:
    """A provider as far as claims go: limits and use of each class in its inventories.

    A mapping of what is used is replaced and never changed, so whoever has it may keep it. The
    generation counts what was done to the provider's record, and how often something was taken.
    """

    generation: int
    limits: Mapping[str, InventoryLimits]
    used: Mapping[str, int]

    def left(self, name: str) -> int:
        """Return how much of a class is not used; it may be less than nothing."""
        return self.limits[name].capacity - self.used[name]

    def fits(self, amounts: Mapping[str, int]) -> bool:
        """Tell whether there is room for one allocation of so much by class."""
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
    """Return the key of a guard; it stands among the claim keys, and is forgotten like them."""
    return f"\x1fguard:{name}"


def shared_guard_key(name: str) -> str:
    """Return the key of a guard's shared uses; those of both kinds must be loaded together."""
    return f"\x1fshared:{name}"


@dataclass(slots=True)
class RequiredKeys:
    """Keys of all that must be loaded before a batch can be judged.

    Providers that named consumers hold something of are needed too; only the store knows which.
    """

    claim_keys: set[str] = field(default_factory=set[str])
    records: dict[Kind, set[str]] = field(default_factory=dict[Kind, set[str]])
    providers: set[str] = field(default_factory=set[str])
    consumers: set[str] = field(default_factory=set[str])
    projects: set[str] = field(default_factory=set[str])
    """Projects whose instances are counted."""

    def record(self, kind: Kind, key: str) -> None:
        """Need to know whether a record is there, and at which revision."""
        self.records.setdefault(kind, set()).add(key)


@dataclass(slots=True)
class ChangeSet:
    """What a batch has done, for the adapter to write down."""

    puts: dict[Ref, Record | None] = field(default_factory=dict[Ref, Record | None])
    """Records saved, as they are to be stored; None for a removed one. Last state only."""
    born: dict[str, None] = field(default_factory=dict[str, None])
    """Instances that were not there before, those among them that went again too."""
    used_before: dict[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    """What was used before the batch of each provider that it drew on, or gave back to."""
    freed: dict[str, None] = field(default_factory=dict[str, None])
    """Consumers whose stored allocations are to be deleted."""
    taken: dict[str, None] = field(default_factory=dict[str, None])
    """Consumers whose allocations, as the books hold them now, are to be inserted after that."""
    seen: dict[str, float] = field(default_factory=dict[str, float])
    """Heartbeats by host, in Unix seconds; they count over `puts` of services."""
    claimed: dict[str, int] = field(default_factory=dict[str, int])
    """Versions by new claim key."""
    guarded: dict[str, int] = field(default_factory=dict[str, int])
    """Newest versions by the key of a guard, see `exclusive_guard_key` and `shared_guard_key`."""
    changes: list[Change] = field(default_factory=list[Change])
    """The feed, in order."""


@dataclass(slots=True)
class WorkingSet:
    """What is known of the ledger, and what a batch has changed of it.

    `version` is the newest. A key that is not in a mapping is not in the ledger. `revisions`
    holds the revision of an instance and 1 for a record of any other kind, but for providers and
    consumers.
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
    """What each instance of a project counts for, by project: of those that were asked about."""
    sums: dict[str, Footprint] = field(default_factory=dict[str, Footprint])
    """What that comes to, for the same projects."""
    change_set: ChangeSet = field(default_factory=ChangeSet)

    def spent(self, change_set: ChangeSet) -> list[tuple[str, str, int, int]]:
        """Return how much more is used than before a batch: (provider, class, difference, used).

        What did not change is left out, but for one class of a provider of which nothing did: its
        generation stands beside what is used. Providers that were put or removed are left out:
        what is used of them is stored as it is.
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
        """Return the generation of the provider of each row that `spent` returned."""
        capacities = self.capacities
        return [capacities[row[0]].generation for row in spent]

    def take_changes(self) -> ChangeSet:
        """Hand over what the batch has done and start clean."""
        change_set, self.change_set = self.change_set, ChangeSet()
        return change_set


class UnitTransaction:
    """One unit on its way into the books; what it does can be undone until it is committed."""

    __slots__ = ("_events", "_raised", "_touched", "_undo", "counted", "unit", "working_set")

    def __init__(self, working_set: WorkingSet, unit: Unit) -> None:
        self.working_set = working_set
        self.unit = unit
        self._undo: list[tuple[dict[Any, Any], Any, Any]] = []
        self._events: list[Event] = []
        self._touched: dict[str, tuple[ProviderCapacity, Mapping[str, int], int]] = {}
        self._raised: set[str] = set()
        self.counted: dict[str, Footprint] = {}
        """What projects that the unit touches came to before it."""

    @property
    def version(self) -> int:
        """The version that the unit will have if it is committed."""
        return self.working_set.version + 1

    def set(self, mapping: dict[K, V], key: K, value: V) -> None:
        """Set an entry, for as long as the unit stands."""
        self._undo.append((mapping, key, mapping.get(key, _MISSING)))
        mapping[key] = value

    def drop(self, mapping: dict[K, V], key: K) -> None:
        """Drop an entry, if there is one, for as long as the unit stands."""
        if key in mapping:
            self._undo.append((mapping, key, mapping.pop(key)))

    def emit(self, event: Event) -> None:
        """Add an event to the feed."""
        self._events.append(event)

    def spend(
        self, provider_uuid: str, amounts: Mapping[str, int], *, raises: bool = False
    ) -> None:
        """Use more of a provider by class, or less where an amount is negative.

        `raises` says whether its generation is to grow, which it does once in a unit.
        """
        capacity, used_before = (
            self.working_set.capacities[provider_uuid],
            self.working_set.change_set.used_before,
        )
        if provider_uuid not in self._touched:
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
        """Take back all that the unit did."""
        for capacity, used, generation in self._touched.values():
            capacity.used, capacity.generation = used, generation
        for mapping, key, old in reversed(self._undo):
            if old is _MISSING:
                del mapping[key]
            else:
                mapping[key] = old

    def commit(self) -> Committed:
        """Give the unit its version and its changes.

        Usage comes last, once for each provider. A unit that changes nothing which a follower
        keeps is told of by an `HostsAlive` without hosts, so that every version is in the feed.
        """
        working_set = self.working_set
        capacities = working_set.capacities
        events = self._events
        for uuid in self._touched:
            capacity = capacities.get(uuid)
            if capacity is not None:
                events.append(Usage(uuid, capacity.used, capacity.generation))
        version = working_set.version = working_set.version + 1
        changes = working_set.change_set.changes
        changes.extend([Change(version, event) for event in events or (NO_CHANGE,)])
        return Committed(version)


NO_CHANGE: Final = HostsAlive(hosts=(), at_s=0.0)
"""What the feed tells of a version that changed nothing which followers keep."""
