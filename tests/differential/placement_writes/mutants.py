"""Defects that Berth could have in reads and writes, each of which the comparison must find."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from berth.adapters.ledger.memory import MemoryLedger
from berth.api.placement import answers
from berth.api.placement.actions import PlacementCall
from berth.api.placement.handlers import inventories, resource_providers, traits
from berth.api.placement.queries import provider_query
from berth.api.placement.views import allocations
from berth.api.placement.views import inventories as usages_view
from berth.domain.inventory.allocation import ConsumerAllocations
from berth.domain.inventory.provider import Provider
from berth.services.providers import resource_providers as providers
from berth.services.providers.inventories import Associations
from berth.services.providers.provider_writes import ProviderRevision, ProviderRevisions
from berth.services.providers.resource_names import ResourceNames
from berth.services.providers.resource_providers import ProviderQuery
from tests.differential.placement.mutants import Patch


def _of_query(change: Callable[[ProviderQuery], ProviderQuery]) -> Patch:
    """Return a patch that changes each query for providers after it is parsed."""

    def wrong(query: Sequence[tuple[str, str]], minor: int) -> ProviderQuery:
        return change(provider_query(query, minor))

    return Patch(resource_providers, "provider_query", wrong)


def _of_generations() -> Patch:
    """Return a patch that ignores the generations that clients send."""
    revise = ProviderRevisions.revise

    async def wrong(
        self: ProviderRevisions,
        uuid: str,
        _: int | None,
        change: Callable[[Provider, int], ProviderRevision],
    ) -> Provider:
        return await revise(self, uuid, None, change)

    return Patch(ProviderRevisions, "revise", wrong)


def _of_aggregates() -> Patch:
    """Return a patch that leaves the generation unchanged when aggregates are set."""
    set_aggregates = Associations.set_aggregates

    async def wrong(self: Associations, uuid: str, uuids: Sequence[str], _: int | None) -> Provider:
        return await set_aggregates(self, uuid, uuids, None)

    return Patch(Associations, "set_aggregates", wrong)


def _of_users() -> Patch:
    """Return a patch that gives a user the usages of the whole project."""
    project_consumers = MemoryLedger.project_consumers

    async def wrong(
        self: MemoryLedger, project: str, _: str | None = None
    ) -> list[ConsumerAllocations]:
        return await project_consumers(self, project)

    return Patch(MemoryLedger, "project_consumers", wrong)


async def _nothing(_: ResourceNames, __: str) -> None:
    """Do nothing, in place of removing a name."""


MUTANTS: Final[Mapping[str, Callable[[], Patch]]] = {
    "name is ignored": lambda: _of_query(lambda one: replace(one, name=None)),
    "uuid is ignored": lambda: _of_query(lambda one: replace(one, uuid=None)),
    "in_tree is ignored": lambda: _of_query(lambda one: replace(one, in_tree=None)),
    "resources is ignored": lambda: _of_query(lambda one: replace(one, amounts=())),
    "required is ignored": lambda: _of_query(lambda one: replace(one, required=())),
    "forbidden traits are ignored": lambda: _of_query(
        lambda one: replace(one, forbidden=frozenset())
    ),
    "member_of is ignored": lambda: _of_query(lambda one: replace(one, member_of=())),
    "forbidden aggregates are ignored": lambda: _of_query(
        lambda one: replace(one, outside_of=frozenset())
    ),
    "associated is ignored": lambda: Patch(traits, "_association_asked", lambda _: None),
    "names may be taken": lambda: Patch(providers, "_check_name", lambda *_: None),
    "loops are allowed": lambda: Patch(providers, "_is_within", lambda *_: False),
    "providers may always be moved": lambda: Patch(resource_providers, "_MAY_MOVE", 0),
    "all may always be reserved": lambda: Patch(inventories, "_MAY_RESERVE_ALL", 0),
    "generations are not looked at": _of_generations,
    "aggregates leave the generation": _of_aggregates,
    "classes are not removed": lambda: Patch(ResourceNames, "remove_class", _nothing),
    "traits are not removed": lambda: Patch(ResourceNames, "remove_trait", _nothing),
    "users are ignored": _of_users,
    "consumers are not counted": lambda: Patch(usages_view, "_COUNT", "count"),
    "types are not told": lambda: Patch(allocations, "_SHOWS_TYPE", 99),
    "owners are not told": lambda: Patch(allocations, "_SHOWS_OWNER", 99),
    "codes are not told": lambda: Patch(answers, "_CODES_SINCE", 99),
    "times are not told": lambda: Patch(answers, "_TIMES_SINCE", 99),
    "versions are not told": lambda: Patch(answers, "version_headers", lambda _: ()),
    "places are told of nothing": lambda: Patch(
        PlacementCall, "location", lambda *_: (b"location", b"/")
    ),
}
