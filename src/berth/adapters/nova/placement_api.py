"""Reads the Placement API: provider trees, inventories, traits, and the allocations on them."""

import asyncio
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec

from berth.adapters.nova.session import OpenStackSession
from berth.domain.errors import InvalidInputError
from berth.domain.inventory.allocation import Consumer, ConsumerAllocations
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory

T = TypeVar("T")

# 1.38 introduced consumer types. Placement before Xena lacks it.
_VERSIONS: Final = ("1.38", "1.36", "1.28")
# The names that exist without being created (os-traits, os-resource-classes).
CUSTOM: Final = "CUSTOM_"
_NO_TYPE: Final = "unknown"


class _Provider(msgspec.Struct):
    uuid: str
    name: str
    parent_provider_uuid: str | None = None


class _Providers(msgspec.Struct):
    resource_providers: list[_Provider]


class _Inventory(msgspec.Struct):
    total: int
    reserved: int
    min_unit: int
    max_unit: int
    step_size: int
    allocation_ratio: float


class _Inventories(msgspec.Struct):
    inventories: dict[str, _Inventory]


class _Traits(msgspec.Struct):
    traits: list[str]


class _Aggregates(msgspec.Struct):
    aggregates: list[str]


class _Resources(msgspec.Struct):
    resources: dict[str, int]


class _Held(msgspec.Struct):
    allocations: dict[str, _Resources]
    project_id: str = ""
    user_id: str = ""
    consumer_type: str | None = None


class _Class(msgspec.Struct):
    name: str


class _Classes(msgspec.Struct):
    resource_classes: list[_Class]


@dataclass(slots=True)
class PlacementRecords:
    """The contents of Placement, as records of Berth; see `NovaCloud`."""

    providers: list[Provider] = field(default_factory=list[Provider])
    resource_classes: list[str] = field(default_factory=list[str])
    traits: list[str] = field(default_factory=list[str])
    holdings: list[ConsumerAllocations] = field(default_factory=list[ConsumerAllocations])


class PlacementApi:
    """Reads the Placement API.

    Args:
        session: sends the requests.
    """

    def __init__(self, session: OpenStackSession) -> None:
        self._session = session
        self._version = _VERSIONS[-1]

    async def read(self) -> PlacementRecords:
        """Return the records of the Placement API.

        Raises:
            UnavailableError: Placement or Keystone does not answer.
            AccessDeniedError: the credentials are not those of an administrator.
            InvalidInputError: Placement is too old, or an answer cannot be understood.
        """
        self._version = await self._newest_version()
        listed = (await self._get("/resource_providers", _Providers)).resource_providers
        found = PlacementRecords()
        pairs = await asyncio.gather(*(self._provider(one) for one in listed))
        found.providers = [provider for provider, _ in pairs]
        consumers = sorted({uuid for _, held in pairs for uuid in held})
        found.holdings = [
            one
            for one in await asyncio.gather(*(self._holding(uuid) for uuid in consumers))
            # A consumer may have released everything since the lists were read.
            if one.allocations
        ]
        classes = (await self._get("/resource_classes", _Classes)).resource_classes
        found.resource_classes = [one.name for one in classes if one.name.startswith(CUSTOM)]
        traits = (await self._get("/traits", _Traits)).traits
        found.traits = [name for name in traits if name.startswith(CUSTOM)]
        return found

    async def _newest_version(self) -> str:
        for version in _VERSIONS:
            self._version = version
            try:
                await self._get("/resource_classes", _Classes)
            except InvalidInputError as error:
                # Placement refuses versions that it does not have with 406.
                if "HTTP 406" not in error.reason:
                    raise
            else:
                return version
        raise InvalidInputError(
            "placement", f"is too old: the import needs microversion {_VERSIONS[-1]} (Rocky)"
        )

    async def _get(self, path: str, kind: type[T]) -> T:
        return await self._session.get("placement", path, kind, version=self._version)

    async def _provider(self, one: _Provider) -> tuple[Provider, list[str]]:
        """Return a provider, and the UUIDs of its consumers."""
        path = f"/resource_providers/{one.uuid}"
        inventories, traits, aggregates, held = await asyncio.gather(
            self._get(f"{path}/inventories", _Inventories),
            self._get(f"{path}/traits", _Traits),
            self._get(f"{path}/aggregates", _Aggregates),
            self._get(f"{path}/allocations", _Held),
        )
        provider = provider_of(
            one.uuid,
            one.name,
            one.parent_provider_uuid,
            {
                name: Inventory(
                    total=found.total,
                    reserved=found.reserved,
                    min_unit=found.min_unit,
                    max_unit=found.max_unit,
                    step_size=found.step_size,
                    allocation_ratio=found.allocation_ratio,
                )
                for name, found in inventories.inventories.items()
            },
            frozenset(traits.traits),
            tuple(sorted(aggregates.aggregates)),
        )
        return provider, list(held.allocations)

    async def _holding(self, uuid: str) -> ConsumerAllocations:
        held = await self._get(f"/allocations/{uuid}", _Held)
        # Placement shows this word for consumers that were created without a type.
        kind = None if held.consumer_type == _NO_TYPE else held.consumer_type
        consumer = Consumer(uuid, held.project_id, held.user_id, kind)
        amounts = {provider: one.resources for provider, one in held.allocations.items()}
        return ConsumerAllocations(consumer, amounts)


def provider_of(
    uuid: str,
    name: str,
    parent_uuid: str | None,
    inventories: dict[str, Inventory],
    traits: frozenset[str],
    aggregates: tuple[str, ...],
) -> Provider:
    """Return a provider of Placement as Berth stores it."""
    return Provider(
        uuid=uuid,
        name=name,
        parent_uuid=parent_uuid,
        inventories=inventories,
        traits=traits,
        aggregates=aggregates,
        # Nothing belongs to an agent of Berth.
        owned_traits=frozenset(),
        owned_classes=frozenset(),
    )
