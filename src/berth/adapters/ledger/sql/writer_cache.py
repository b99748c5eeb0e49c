"""What a writer remembers of the ledger between two batches, as long as nobody else writes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from berth.adapters.ledger.engine.working_set import Ref, RequiredKeys, WorkingSet
from berth.adapters.ledger.sql.loading import working_set_of
from berth.domain.ledger.record import Kind

_ROOMS_MAX: Final = 200_000
"""Providers to remember: each takes about a kilobyte."""

_COUNTED_MAX: Final = 200_000
"""Instances of limited projects to remember what they count for: some 200 bytes each."""

_KEYS_MAX: Final = 100_000
"""Other keys to remember when there are no pages: each takes a hundred bytes, about."""


@dataclass(slots=True)
class WriterCache:
    """Books that outlive a batch, and which keys they are complete for.

    A key that was asked for once is known, whether the ledger has it or not. What a page holds
    must be known until it is posted, so keys are forgotten by generations: those that nobody has
    asked for since the posting of their pages began.
    """

    working_set: WorkingSet = field(default_factory=WorkingSet)
    _known: RequiredKeys = field(default_factory=RequiredKeys)
    _older: RequiredKeys = field(default_factory=RequiredKeys)

    def __len__(self) -> int:
        """Return how many keys are known, but for those of providers."""
        known = self._known
        return len(known.claim_keys) + len(known.consumers) + sum(map(len, known.records.values()))

    def missing(self, required: RequiredKeys) -> RequiredKeys:
        """Return those keys that have to be loaded."""
        return _without(_without(required, self._known), self._older)

    def add_loaded(
        self, required: RequiredKeys, missing: RequiredKeys, version: int, texts: Sequence[str]
    ) -> None:
        """Take in what was loaded: the keys that were missing of those that are needed.

        Providers come with consumers, too: those that are known already may have changed since
        the tables were written, so what is known of them stays.
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
            if uuid not in self._known.providers and uuid not in self._older.providers:
                working_set.capacities[uuid] = capacity
        _add(self._known, required)
        self._known.providers.update(loaded.capacities)
        for consumer in required.consumers:
            self._known.providers.update(working_set.held.get(consumer, ()))

    def add_written(self, puts: Iterable[Ref]) -> None:
        """Note what a batch has put or removed, which may be more than was asked for.

        A record of most kinds is put without a look at what was there. Books know it from then
        on, and have to forget it again when its page is posted.
        """
        records = self._known.records
        for kind, key in puts:
            if kind is not Kind.INSTANCE and kind is not Kind.PROVIDER:
                records.setdefault(kind, set()).add(key)

    def begin_generation(self) -> None:
        """Begin a new generation of keys, as the pages until now are about to be posted."""
        self._older, self._known = self._known, RequiredKeys()

    def end_generation(self) -> None:
        """Forget the generation before, now that its pages are in the tables.

        Providers are asked for again and again, so they stay, if there are not too many.
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
        if len(older.providers) <= _ROOMS_MAX:
            known.providers |= older.providers & working_set.capacities.keys()
        else:
            for uuid in older.providers - known.providers:
                working_set.capacities.pop(uuid, None)
        self._older = RequiredKeys()

    def shrink(self) -> None:
        """Forget whatever can be loaded again, as all of it is in the tables."""
        old, providers = self.working_set, self._known.providers | self._older.providers
        capacities = old.capacities
        self.working_set, self._known, self._older = (
            WorkingSet(old.version),
            RequiredKeys(),
            RequiredKeys(),
        )
        if sum(map(len, old.counted.values())) <= _COUNTED_MAX:
            self.working_set.counted, self.working_set.sums = old.counted, old.sums
        if len(capacities) <= _ROOMS_MAX:
            self.working_set.capacities, self._known.providers = (
                capacities,
                providers & capacities.keys(),
            )

    def shrink_if_much(self) -> None:
        """Shrink when much is known that nobody may ask for again."""
        if len(self) > _KEYS_MAX or len(self._known.providers) > 2 * _ROOMS_MAX:
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
