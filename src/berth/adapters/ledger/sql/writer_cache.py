"""The cache of a SQLite writer: the part of the ledger that it remembers between two batches."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from berth.adapters.ledger.engine.working_set import Ref, RequiredKeys, WorkingSet
from berth.adapters.ledger.sql.loading import working_set_of
from berth.domain.ledger.record import Kind

# The cache keeps at most about this many providers, of about a kilobyte each.
_PROVIDERS_MAX: Final = 200_000

# The cache keeps the footprints of at most about this many instances, of about 200 bytes each.
_COUNTED_MAX: Final = 200_000

# While no batch is logged, the cache keeps at most this many other keys, of about 100 bytes each.
_KEYS_MAX: Final = 100_000


@dataclass(slots=True)
class WriterCache:
    """A working set that is kept from batch to batch, and the keys for which it is complete.

    A key that was required once is known, whether it exists in the ledger or not. Keys changed by a
    logged batch must stay known until a checkpoint has written the batch to the tables, since the
    tables are stale until then. Keys are therefore forgotten by generation: at the end of a
    checkpoint, those that no batch has required since it began are dropped.
    """

    working_set: WorkingSet = field(default_factory=WorkingSet)
    _known: RequiredKeys = field(default_factory=RequiredKeys)
    _older: RequiredKeys = field(default_factory=RequiredKeys)

    def __len__(self) -> int:
        """Return the number of known keys of the current generation, except providers."""
        known = self._known
        return len(known.claim_keys) + len(known.consumers) + sum(map(len, known.records.values()))

    def missing(self, required: RequiredKeys) -> RequiredKeys:
        """Return the required keys that are unknown and must be loaded."""
        return _without(_without(required, self._known), self._older)

    def add_loaded(
        self, required: RequiredKeys, missing: RequiredKeys, version: int, texts: Sequence[str]
    ) -> None:
        """Add the rows loaded for the missing keys; all required keys are known from then on.

        Loading a consumer also loads the providers from which it holds something. Those that are
        already known keep their known state, which may be newer than the tables.

        Args:
            required: the keys that the batch requires.
            missing: those of them that were unknown, and are loaded.
            version: the newest version of the loaded row.
            texts: the JSON texts of the loaded row; see `working_set_of`.
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
            # Logged batches may have changed a known provider since the tables were written.
            if uuid not in self._known.providers and uuid not in self._older.providers:
                working_set.capacities[uuid] = capacity
        _add(self._known, required)
        self._known.providers.update(loaded.capacities)
        for consumer in required.consumers:
            self._known.providers.update(working_set.held.get(consumer, ()))

    def add_written(self, puts: Iterable[Ref]) -> None:
        """Mark the keys of the records that a batch has put or removed as known.

        Most kinds of records are put without loading them first. The working set has such a record
        from then on, and must forget it after the checkpoint of its batch.
        """
        records = self._known.records
        for kind, key in puts:
            if kind is not Kind.INSTANCE and kind is not Kind.PROVIDER:
                records.setdefault(kind, set()).add(key)

    def begin_generation(self) -> None:
        """Begin a new generation of keys when a checkpoint of the logged batches begins."""
        self._older, self._known = self._known, RequiredKeys()

    def end_generation(self) -> None:
        """Forget the keys that only the previous generation has; their batches are in the tables.

        Providers are required again and again, so they are kept unless there are too many.
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
        """Forget all keys, but keep providers and footprints unless there are too many.

        This requires that no batch is logged, so that the tables have everything that is forgotten.
        """
        old, providers = self.working_set, self._known.providers | self._older.providers
        capacities = old.capacities
        self.working_set, self._known, self._older = (
            WorkingSet(old.version),
            RequiredKeys(),
            RequiredKeys(),
        )
        # Counting a project again reads all its instances, so footprints are kept unless there are
        # too many.
        if sum(map(len, old.counted.values())) <= _COUNTED_MAX:
            self.working_set.counted, self.working_set.sums = old.counted, old.sums
        if len(capacities) <= _PROVIDERS_MAX:
            self.working_set.capacities, self._known.providers = (
                capacities,
                providers & capacities.keys(),
            )

    def shrink_if_much(self) -> None:
        """Call `shrink` if too many keys or providers are known."""
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
