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

    books: WorkingSet = field(default_factory=WorkingSet)
    _known: RequiredKeys = field(default_factory=RequiredKeys)
    _older: RequiredKeys = field(default_factory=RequiredKeys)

    def __len__(self) -> int:
        """Return how many keys are known, but for those of providers."""
        known = self._known
        return len(known.claim_keys) + len(known.consumers) + sum(map(len, known.records.values()))

    def missing(self, needs: RequiredKeys) -> RequiredKeys:
        """Return those keys that have to be loaded."""
        return _without(_without(needs, self._known), self._older)

    def learn(
        self, needs: RequiredKeys, missing: RequiredKeys, version: int, texts: Sequence[str]
    ) -> None:
        """Take in what was loaded: the keys that were missing of those that are needed.

        Providers come with consumers, too: those that are known already may have changed since
        the tables were written, so what is known of them stays.
        """
        loaded, books = working_set_of(tuple(missing.records), version, texts), self.books
        books.version = version
        books.claimed.update(loaded.claimed)
        books.revisions.update(loaded.revisions)
        books.held.update(loaded.held)
        books.consumers.update(loaded.consumers)
        for uuid, room in loaded.rooms.items():
            if uuid not in self._known.providers and uuid not in self._older.providers:
                books.rooms[uuid] = room
        _add(self._known, needs)
        self._known.providers.update(loaded.rooms)
        for consumer in needs.consumers:
            self._known.providers.update(books.held.get(consumer, ()))

    def note(self, puts: Iterable[Ref]) -> None:
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
        books, older, known = self.books, self._older, self._known
        for key in older.claim_keys - known.claim_keys:
            books.claimed.pop(key, None)
        for consumer in older.consumers - known.consumers:
            books.held.pop(consumer, None)
        for kind, keys in older.records.items():
            for key in keys - known.records.get(kind, set()):
                books.revisions.pop((kind, key), None)
                if kind is Kind.CONSUMER:
                    books.consumers.pop(key, None)
        if len(older.providers) <= _ROOMS_MAX:
            known.providers |= older.providers & books.rooms.keys()
        else:
            for uuid in older.providers - known.providers:
                books.rooms.pop(uuid, None)
        self._older = RequiredKeys()

    def shrink(self) -> None:
        """Forget whatever can be loaded again, as all of it is in the tables."""
        old, providers = self.books, self._known.providers | self._older.providers
        rooms = old.rooms
        self.books, self._known, self._older = (
            WorkingSet(old.version),
            RequiredKeys(),
            RequiredKeys(),
        )
        if sum(map(len, old.counted.values())) <= _COUNTED_MAX:
            self.books.counted, self.books.sums = old.counted, old.sums
        if len(rooms) <= _ROOMS_MAX:
            self.books.rooms, self._known.providers = rooms, providers & rooms.keys()

    def shrink_if_much(self) -> None:
        """Shrink when much is known that nobody may ask for again."""
        if len(self) > _KEYS_MAX or len(self._known.providers) > 2 * _ROOMS_MAX:
            self.shrink()


def _without(needs: RequiredKeys, known: RequiredKeys) -> RequiredKeys:
    records: dict[Kind, set[str]] = {}
    for kind, keys in needs.records.items():
        unknown = keys - known.records.get(kind, set())
        if unknown:
            records[kind] = unknown
    return RequiredKeys(
        claim_keys=needs.claim_keys - known.claim_keys,
        records=records,
        providers=needs.providers - known.providers,
        consumers=needs.consumers - known.consumers,
    )


def _add(known: RequiredKeys, needs: RequiredKeys) -> None:
    known.claim_keys |= needs.claim_keys
    known.consumers |= needs.consumers
    known.providers |= needs.providers
    for kind, keys in needs.records.items():
        known.records.setdefault(kind, set()).update(keys)
