"""Waiting: providers of which no chain of parents leads to a root, yet or any more."""

from collections.abc import Mapping
from dataclasses import replace

from berth.domain.inventory.provider import Provider


class UnattachedProviders:
    """Providers by uuid, and their uuids by that of the parent for which they wait.

    Attributes:
        by_uuid: the providers, as the ledger told them.
    """

    def __init__(self) -> None:
        self.by_uuid: dict[str, Provider] = {}
        self._below: dict[str | None, set[str]] = {}

    def below(self, uuid: str) -> tuple[str, ...]:
        """Return the uuids of those whose parent has that uuid."""
        return tuple(self._below.get(uuid, ()))

    def put(self, provider: Provider) -> None:
        """Let a provider wait, or replace it."""
        self.take(provider.uuid)
        self.by_uuid[provider.uuid] = provider
        self._below.setdefault(provider.parent_uuid, set()).add(provider.uuid)

    def put_used(self, uuid: str, used: Mapping[str, int], generation: int | None) -> None:
        """Set what is used of a provider; one that does not wait is no error."""
        provider = self.by_uuid.get(uuid)
        if provider is not None:
            number = provider.generation if generation is None else generation
            self.by_uuid[uuid] = replace(provider, used=used, generation=number)

    def take(self, uuid: str) -> Provider | None:
        """Return and forget a provider; None when it does not wait."""
        provider = self.by_uuid.pop(uuid, None)
        if provider is not None:
            siblings = self._below[provider.parent_uuid]
            siblings.discard(uuid)
            if not siblings:
                del self._below[provider.parent_uuid]
        return provider
