"""Associations of providers: their traits, and the aggregates that they are in."""

from collections.abc import Sequence
from dataclasses import replace

from berth.domain.inventory.provider import Provider
from berth.services.providers.provider_writes import Revised, Revising, trait_guards
from berth.services.providers.refusals import RefusedError, Why
from berth.services.replica.provider_replica import ProviderReplica


class Associations:
    """Sets what providers are said to be, and what they belong to."""

    def __init__(self, revising: Revising, replica: ProviderReplica) -> None:
        self._revising = revising
        self._replica = replica

    async def set_traits(
        self, uuid: str, traits: Sequence[str], generation: int | None
    ) -> Provider:
        """Replace the traits of a provider; the same ones leave it as it is.

        Args:
            uuid: of the provider.
            traits: which somebody made, or standard ones.
            generation: the one that the client has seen; None: whatever it is.

        Raises:
            RefusedError: no such provider or trait, or another generation.
        """
        wanted = frozenset(traits)

        def change(old: Provider, seen: int) -> Revised:
            vocabulary = self._replica.vocabulary
            unknown = tuple(
                name for name in dict.fromkeys(traits) if not vocabulary.traits.is_known(name)
            )
            if unknown:
                raise RefusedError(Why.NO_TRAIT, uuid, unknown)
            if wanted == old.traits:
                return Revised(None)
            made = [n for n in sorted(wanted - old.traits) if not vocabulary.traits.is_standard(n)]
            return Revised(replace(old, traits=wanted), trait_guards(made, seen))

        return await self._revising.revise(uuid, generation, change)

    async def set_aggregates(
        self, uuid: str, aggregates: Sequence[str], generation: int | None
    ) -> Provider:
        """Replace the aggregates that a provider is in.

        Args:
            uuid: of the provider.
            aggregates: any uuids, each once.
            generation: the one that the client has seen, which is raised; None: whatever it is,
                and it stays so.

        Raises:
            RefusedError: no such provider, or another generation.
        """

        def change(old: Provider, seen: int) -> Revised:  # noqa: ARG001 - relies on nothing else
            record = replace(old, aggregates=tuple(aggregates))
            return Revised(record, raises=0 if generation is None else 1)

        return await self._revising.revise(uuid, generation, change)
