"""Providers that have no row, because their chain of parents leads to no root."""

from collections.abc import Mapping
from dataclasses import replace

from berth.domain.inventory.provider import Provider


class UnattachedProviders:
    """Unattached providers by uuid, and their uuids by the uuid of their parent.

    Attributes:
        by_uuid: the providers, as the ledger reports them.
    """

    def __init__(self) -> None:
        self.by_uuid: dict[str, Provider] = {}
        self._below: dict[str | None, set[str]] = {}

    def below(self, uuid: str) -> tuple[str, ...]:
        """Return the uuids of the unattached providers with the given parent."""
        return tuple(self._below.get(uuid, ()))

    def put(self, provider: Provider) -> None:
        """Add or replace a provider."""
        self.take(provider.uuid)
        self.by_uuid[provider.uuid] = provider
        self._below.setdefault(provider.parent_uuid, set()).add(provider.uuid)

    def put_used(self, uuid: str, used: Mapping[str, int], generation: int | None) -> None:
        """Set all used amounts of a provider, and its generation unless that is None.

        An unknown provider is ignored.
        """
        provider = self.by_uuid.get(uuid)
        if provider is not None:
            number = provider.generation if generation is None else generation
            self.by_uuid[uuid] = replace(provider, used=used, generation=number)

    def take(self, uuid: str) -> Provider | None:
        """Remove and return a provider, or return None if it is unknown."""
        provider = self.by_uuid.pop(uuid, None)
        if provider is not None:
            siblings = self._below[provider.parent_uuid]
            siblings.discard(uuid)
            if not siblings:
                del self._below[provider.parent_uuid]
        return provider
