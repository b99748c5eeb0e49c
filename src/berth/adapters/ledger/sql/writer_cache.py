"""What a writer remembers of the ledger between two batches, while no other process writes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from berth.adapters.ledger.engine.working_set import Ref, RequiredKeys, WorkingSet
from berth.adapters.ledger.sql.loading import working_set_of
from berth.domain.ledger.record import Kind

# Providers to remember. Each takes about a kilobyte.
_PROVIDERS_MAX: Final = 200_000

# Instances of projects with quotas to remember footprints of, at some 200 bytes each.
_COUNTED_MAX: Final = 200_000

# Other keys to remember while no batch is logged, at about a hundred bytes each.
_KEYS_MAX: Final = 100_000


@dataclass(slots=True)
class WriterCache:
    """A working set that outlives its batch, and the keys for which it is complete.

    A key that was required once is known, whether it exists in the ledger or not. Keys changed by a
    logged batch must stay known until a checkpoint has written the batch to the tables, since the
    tables are stale until then. Keys are therefore forgotten by generation: when a checkpoint ends,
    those that no batch has required since it began are dropped.
    """

    working_set: WorkingSet = field(default_factory=WorkingSet)
    _known: RequiredKeys = field(default_factory=RequiredKeys)
    _older: RequiredKeys = field(default_factory=RequiredKeys)

    def __len__(self) -> int:
        """Return the number of known keys, those of providers aside."""
        known = self._known
        return len(known.claim_keys) + len(known.consumers) + sum(map(len, known.records.values()))

    def missing(self, required: RequiredKeys) -> RequiredKeys:
        """Return the keys that must be loaded."""
        return _without(_without(required, self._known), self._older)

    def add_loaded(
        self, required: RequiredKeys, missing: RequiredKeys, version: int, texts: Sequence[str]
    ) -> None:
        """Add what was loaded for the missing keys among the required ones.

        Loading a consumer also loads its providers. Providers that are known already keep their
        known state, which may be newer than the tables.
        """
        loaded, working_set = (
            working_set_of(tuple(missing.records), version, texts),
            self.working_set,
        )
        working_set.version = version
        working_set.claimed.update(loaded.claimed)
        working_set.revisions.update(loaded.revisions)
        working_set.held.update(loaded.held)
        working_set.consumers.update(loaded.consumers)
        for uuid, capacity in loaded.capacities.items():
            # Logged batches may have changed it since the tables were written.
            if uuid not in self._known.providers and uuid not in self._older.providers:
                working_set.capacities[uuid] = capacity
        _add(self._known, required)
        self._known.providers.update(loaded.capacities)
        for consumer in required.consumers:
            self._known.providers.update(working_set.held.get(consumer, ()))

    def add_written(self, puts: Iterable[Ref]) -> None:
        """Add the keys of what a batch has put or removed, which may not have been required.

        Most kinds of records are put without loading them first. The working set knows such a
        record from then on, and has to forget it again after the checkpoint of its batch.
        """
        records = self._known.records
        for kind, key in puts:
            if kind is not Kind.INSTANCE and kind is not Kind.PROVIDER:
                records.setdefault(kind, set()).add(key)

    def begin_generation(self) -> None:
        """Begin a new generation of keys, as a checkpoint of the logged batches begins."""
        self._older, self._known = self._known, RequiredKeys()

    def end_generation(self) -> None:
        """Forget the previous generation, whose batches are now in the tables.

        Providers are required again and again, so they stay unless there are too many.
        """
        working_set, older, known = self.working_set, self._older, self._known
        for key in older.claim_keys - known.claim_keys:
            working_set.claimed.pop(key, None)
        for consumer in older.consumers - known.consumers:
            working_set.held.pop(consumer, None)
        for kind, keys in older.records.items():
            for key in keys - known.records.get(kind, set()):
                working_set.revisions.pop((kind, key), None)
                if kind is Kind.CONSUMER:
                    working_set.consumers.pop(key, None)
        if len(older.providers) <= _PROVIDERS_MAX:
            known.providers |= older.providers & working_set.capacities.keys()
        else:
            for uuid in older.providers - known.providers:
                working_set.capacities.pop(uuid, None)
        self._older = RequiredKeys()

    def shrink(self) -> None:
        """Forget everything that can be loaded again, as all of it is in the tables."""
        old, providers = self.working_set, self._known.providers | self._older.providers
        capacities = old.capacities
        self.working_set, self._known, self._older = (
            WorkingSet(old.version),
            RequiredKeys(),
            RequiredKeys(),
        )
        # Counting a project again reads all its instances, so counts are kept as long as they are
        # few.
        if sum(map(len, old.counted.values())) <= _COUNTED_MAX:
            self.working_set.counted, self.working_set.sums = old.counted, old.sums
        if len(capacities) <= _PROVIDERS_MAX:
            self.working_set.capacities, self._known.providers = (
                capacities,
                providers & capacities.keys(),
            )

    def shrink_if_much(self) -> None:
        """Shrink if many keys are known that may never be required again."""
        if len(self) > _KEYS_MAX or len(self._known.providers) > 2 * _PROVIDERS_MAX:
            self.shrink()


def _without(required: RequiredKeys, known: RequiredKeys) -> RequiredKeys:
    records: dict[Kind, set[str]] = {}
    for kind, keys in required.records.items():
        unknown = keys - known.records.get(kind, set())
        if unknown:
            records[kind] = unknown
    return RequiredKeys(
        claim_keys=required.claim_keys - known.claim_keys,
        records=records,
        providers=required.providers - known.providers,
        consumers=required.consumers - known.consumers,
    )


def _add(known: RequiredKeys, required: RequiredKeys) -> None:
    known.claim_keys |= required.claim_keys
    known.consumers |= required.consumers
    known.providers |= required.providers
    for kind, keys in required.records.items():
        known.records.setdefault(kind, set()).update(keys)
