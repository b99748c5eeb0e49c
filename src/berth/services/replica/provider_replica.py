"""The provider replica, a provider table and vocabulary that follow the change feed."""

from collections.abc import Sequence

from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import ResourceClass, StandardNames, Trait
from berth.domain.ledger.change import Change, Event, RecordRemoved, Snapshot, Usage
from berth.domain.ledger.record import Kind
from berth.tables.provider.providers import ProviderTable
from berth.tables.vocabulary import Vocabulary


class ProviderReplica:
    """A subscriber of the feed that keeps the data that the Placement API reads.

    Each `load` replaces both attributes with new objects, so callers must not keep references
    to them.

    Attributes:
        table: all providers.
        vocabulary: the known resource classes and traits.
    """

    def __init__(self, standard: StandardNames) -> None:
        """Start without providers and with the standard names."""
        self._standard = standard
        self.table = ProviderTable()
        self.vocabulary = Vocabulary(standard, self.table)

    def load(self, snapshot: Snapshot) -> None:
        """Replace the table and the vocabulary; see `Subscriber.load`."""
        table = ProviderTable()
        table.reserve(len(snapshot.providers))
        for provider in snapshot.providers:
            table.put(provider)
        table.version = snapshot.version
        self.table = table
        self.vocabulary = Vocabulary(self._standard, table)
        for resource_class in snapshot.resource_classes:
            self.vocabulary.put(resource_class)
        for trait in snapshot.traits:
            self.vocabulary.put(trait)

    def apply(self, changes: Sequence[Change]) -> None:
        """Apply changes to the table and the vocabulary; see `Subscriber.apply`."""
        for change in changes:
            self._apply(change.event)
            # The version follows the event, because a reader that sees the version must also see
            # the event.
            self.table.version = change.version

    def _apply(self, event: Event) -> None:
        match event:
            case Usage():
                self.table.put_used(event.provider_uuid, event.used, event.generation)
            case Provider():
                self.table.put(event)
            case RecordRemoved(Kind.PROVIDER, key):
                self.table.remove(key)
            case ResourceClass() | Trait():
                self.vocabulary.put(event)
            case RecordRemoved(Kind.RESOURCE_CLASS, key):
                self.vocabulary.remove_class(key)
            case RecordRemoved(Kind.TRAIT, key):
                self.vocabulary.remove_trait(key)
            case _:
                pass
