"""Concurrent changes of providers have the same effect as changes made one after another.

Two processes follow one ledger, and each is slow to commit, so the records on which one has
decided may change before its commit. The records and answers must be those of a plain model for
one of the orders.
"""

import asyncio
from collections.abc import Sequence
from itertools import cycle, permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.adapters.ledger.memory import MemoryLedger
from berth.domain.inventory.allocation import Allocation, Claim
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory, ResourceClass, StandardNames, Trait
from berth.domain.ledger.write import Committed, Outcome, Take, Unit
from berth.services.providers.inventories import Associations, Inventories
from berth.services.providers.provider_writes import ProviderRefusedError, ProviderRevisions
from berth.services.providers.resource_names import ResourceNames
from berth.services.providers.resource_providers import ResourceProviders
from berth.services.replica.follower import Follower
from berth.services.replica.provider_replica import ProviderReplica
from tests.property import reference_providers
from tests.property.reference_providers import (
    STANDARD_CLASSES,
    STANDARD_TRAITS,
    Node,
    World,
)
from tests.unit.api.cloud import CountedIds, FakeClock

Deed = tuple[str, dict[str, Any]]
"""The name of a method that the model and a process have, and its arguments."""


class SlowLedger(MemoryLedger):
    """A ledger that lets other tasks run between a decision and its commit."""

    def __init__(self, delays: Sequence[int]) -> None:
        super().__init__(now_s=lambda: 0.0)
        self._delays = cycle(delays)

    async def commit(self, units: Sequence[Unit]) -> list[Outcome]:
        """Commit after a number of turns of the event loop."""
        for _ in range(next(self._delays)):
            await asyncio.sleep(0)
        return await super().commit(units)


class Process:
    """The services of one process."""

    def __init__(self, ledger: SlowLedger) -> None:
        clock = FakeClock()
        self.replica = ProviderReplica(
            StandardNames(tuple(STANDARD_CLASSES), tuple(STANDARD_TRAITS))
        )
        self.follower = Follower(ledger, clock, [self.replica])
        parts: Any = {
            "follower": self.follower,
            "ledger": ledger,
            "replica": self.replica,
            "clock": clock,
        }
        revisions = ProviderRevisions(**parts)
        self.ledger = ledger
        self.providers = ResourceProviders(ids=CountedIds(), **parts)
        self.inventories = Inventories(revisions, self.replica)
        self.associations = Associations(revisions, self.replica)
        self.names = ResourceNames(**parts)
        self._claims = 0

    async def do(self, deed: Deed) -> object:
        """Call a method and return its answer in the model's form; a refusal is its rule's name."""
        name, given = deed
        try:
            found = await getattr(self, f"_{name}")(**given)
        except ProviderRefusedError as error:
            return error.why.name
        return found.generation if isinstance(found, Provider) else found

    async def _create(self, uuid: str, name: str, parent: str | None) -> Provider:
        return await self.providers.create(name, uuid, parent)

    async def _change(
        self, uuid: str, name: str, parent: str | None, *, may_move: bool
    ) -> Provider:
        return await self.providers.change(uuid, name=name, parent=parent, may_move=may_move)

    async def _remove(self, uuid: str) -> None:
        await self.providers.remove(uuid)

    async def _set_all(self, uuid: str, totals: dict[str, int], generation: int | None) -> Provider:
        has = {name: Inventory(total) for name, total in totals.items()}
        return await self.inventories.set_all(uuid, has, generation)

    async def _add(self, uuid: str, name: str, total: int) -> Provider:
        return await self.inventories.add(uuid, name, Inventory(total))

    async def _set_one(self, uuid: str, name: str, total: int, generation: int) -> Provider:
        return await self.inventories.set_one(uuid, name, Inventory(total), generation)

    async def _remove_one(self, uuid: str, name: str) -> Provider:
        return await self.inventories.remove_one(uuid, name)

    async def _take(self, uuid: str, name: str, amount: int) -> bool:
        self._claims += 1
        key = f"claim-{id(self)}-{self._claims}"
        take = Take(Claim(key, (Allocation(key, uuid, {name: amount}),)))
        (outcome,) = await self.ledger.commit([(take,)])
        return isinstance(outcome, Committed)

    async def _set_traits(
        self, uuid: str, traits: frozenset[str], generation: int | None
    ) -> Provider:
        return await self.associations.set_traits(uuid, sorted(traits), generation)

    async def _set_aggregates(
        self, uuid: str, uuids: tuple[str, ...], generation: int | None
    ) -> Provider:
        return await self.associations.set_aggregates(uuid, uuids, generation)

    async def _ensure_class(self, name: str) -> bool:
        return await self.names.ensure_class(name)

    async def _create_class(self, name: str) -> None:
        await self.names.create_class(name)

    async def _rename_class(self, old: str, new: str) -> None:
        await self.names.rename_class(old, new)

    async def _remove_class(self, name: str) -> None:
        await self.names.remove_class(name)

    async def _ensure_trait(self, name: str) -> bool:
        return await self.names.ensure_trait(name)

    async def _remove_trait(self, name: str) -> None:
        await self.names.remove_trait(name)


def _of(deed: str, /, **given: st.SearchStrategy[Any]) -> st.SearchStrategy[Deed]:
    return st.tuples(st.just(deed), st.fixed_dictionaries(given))


def _one_of(*values: object) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


_there = _one_of("u1", "u2", "u3")
_uuids = _one_of("u1", "u2", "u3", "u4")
_names = _one_of("a", "b", "c", "d")
_parents = _one_of(None, "u1", "u2", "u3", "u4")
_classes = _one_of("VCPU", "CUSTOM_A", "CUSTOM_B")
_own_classes = _one_of("CUSTOM_A", "CUSTOM_B")
_traits = _one_of("HW_A", "CUSTOM_T")
_sets_of_traits = _one_of(frozenset[str](), frozenset({"HW_A"}), frozenset({"CUSTOM_T"}))
_totals = _one_of(1, 4)
_seen = st.integers(0, 4)
_maybe_seen = st.none() | _seen
_has = st.dictionaries(_classes, _totals, max_size=2)
_moves = _of("change", uuid=_there, name=_names, parent=_parents, may_move=st.booleans())


def _moved(uuid: str, name: str) -> st.SearchStrategy[Deed]:
    """Draw a change of a provider's parent that keeps its name."""
    keeps = {"uuid": st.just(uuid), "name": st.just(name), "may_move": _one_of(True)}
    return _of("change", parent=_parents, **keeps)


# Each round has one topic, so that its concurrent changes collide.
_TOPICS = {
    "names": (
        _of("create", uuid=_one_of("u4", "u5"), name=_one_of("d"), parent=_one_of(None, "u1")),
        _of("change", uuid=_there, name=_one_of("d"), parent=_one_of(None), may_move=_one_of(True)),
        _moves,
    ),
    "trees": (
        _of("create", uuid=_one_of("u4"), name=_one_of("d", "e"), parent=_parents),
        _moved("u1", "a"),
        _moved("u2", "b"),
        _moved("u3", "c"),
        _of("remove", uuid=_uuids),
    ),
    "records": (
        _of("set_all", uuid=_there, totals=_has, generation=_maybe_seen),
        _of("add", uuid=_there, name=_classes, total=_totals),
        _of("set_one", uuid=_there, name=_classes, total=_totals, generation=_seen),
        _of("remove_one", uuid=_there, name=_classes),
        _of("take", uuid=_there, name=_classes, amount=_totals),
        _of("set_traits", uuid=_there, traits=_sets_of_traits, generation=_maybe_seen),
        _of(
            "set_aggregates",
            uuid=_there,
            uuids=_one_of((), ("g1",), ("g2", "g1")),
            generation=_maybe_seen,
        ),
        _of("remove", uuid=_uuids),
    ),
    "classes": (
        _of("ensure_class", name=_own_classes),
        _of("create_class", name=_classes),
        _of("rename_class", old=_classes, new=_own_classes),
        _of("remove_class", name=_classes),
        _of("add", uuid=_there, name=_own_classes, total=_totals),
        _of("set_all", uuid=_there, totals=_has, generation=st.none()),
        _of("take", uuid=_there, name=_own_classes, amount=_totals),
    ),
    "traits": (
        _of("ensure_trait", name=_traits),
        _of("remove_trait", name=_traits),
        _of("set_traits", uuid=_there, traits=_sets_of_traits, generation=st.none()),
    ),
}
_rounds = st.lists(
    _one_of(*_TOPICS).flatmap(
        lambda topic: st.lists(st.one_of(*_TOPICS[topic]), min_size=2, max_size=3)
    ),
    min_size=1,
    max_size=6,
)

_BEFORE: Sequence[Deed] = (
    ("ensure_class", {"name": "CUSTOM_A"}),
    ("ensure_trait", {"name": "CUSTOM_T"}),
    ("create", {"uuid": "u1", "name": "a", "parent": None}),
    ("create", {"uuid": "u2", "name": "b", "parent": "u1"}),
    ("create", {"uuid": "u3", "name": "c", "parent": None}),
    ("set_all", {"uuid": "u2", "totals": {"VCPU": 4}, "generation": 0}),
)
"""The changes made before the rounds; in an empty world, nearly every change is refused."""


def _told(world: World, deed: Deed) -> object:
    """Call a method of the model and return its answer; for a refusal, return the rule's name."""
    name, given = deed
    try:
        return getattr(world, name)(**given)
    except reference_providers.RefusedError as error:
        return str(error)


def _node(provider: Provider) -> Node:
    return Node(
        provider.name,
        provider.parent_uuid,
        provider.generation,
        {name: one.total for name, one in provider.inventories.items()},
        {name: amount for name, amount in provider.used.items() if amount},
        provider.traits,
        provider.aggregates,
    )


async def _world_of(ledger: MemoryLedger) -> World:
    """Return a model with the records of the ledger."""
    providers = await ledger.all(Provider)
    return World(
        {provider.uuid: _node(provider) for provider in providers},
        frozenset(record.name for record in await ledger.all(ResourceClass)),
        frozenset(record.name for record in await ledger.all(Trait)),
    )


def _orders(world: World, deeds: list[Deed], answers: list[object]) -> list[World]:
    """Return the worlds that result from each order of deeds that gives these answers."""
    found: list[World] = []
    for order in permutations(range(len(deeds))):
        then = world.copy()
        if all(_told(then, deeds[place]) == answers[place] for place in order):
            found.append(then)
    return found


async def _check(rounds: Sequence[list[Deed]], delays: Sequence[int]) -> None:
    """Run each round's deeds concurrently, and check that some order gives the same result."""
    ledger = SlowLedger(delays)
    processes = [Process(ledger), Process(ledger)]
    world = World()
    for deed in _BEFORE:
        assert await processes[0].do(deed) == _told(world, deed)
    for deeds in rounds:
        doing = [processes[place % 2].do(deed) for place, deed in enumerate(deeds)]
        answers = list(await asyncio.gather(*doing))
        now = await _world_of(ledger)
        assert now in _orders(world, deeds, answers), (deeds, answers, now)
        world = now
    for process in processes:
        await process.follower.catch_up()
        table = process.replica.table
        rows = table.alive_rows().tolist()
        assert {table.uuid(row): _node(table.record(row)) for row in rows} == world.nodes


def _deed(deed: str, /, **given: object) -> Deed:
    return deed, given


@pytest.mark.parametrize("delays", [(1,), (0, 1), (1, 0), (2, 1), (1, 2, 0)])
@pytest.mark.parametrize(
    "deeds",
    [
        (
            _deed("create", uuid="u4", name="d", parent=None),
            _deed("create", uuid="u5", name="d", parent=None),
        ),
        (
            _deed("create", uuid="u4", name="d", parent=None),
            _deed("create", uuid="u4", name="e", parent=None),
        ),
        (
            _deed("create", uuid="u4", name="d", parent=None),
            _deed("change", uuid="u3", name="d", parent=None, may_move=False),
        ),
        (_deed("create", uuid="u4", name="d", parent="u3"), _deed("remove", uuid="u3")),
        (
            _deed("change", uuid="u1", name="a", parent="u3", may_move=True),
            _deed("remove", uuid="u3"),
        ),
        (
            _deed("change", uuid="u1", name="a", parent="u3", may_move=True),
            _deed("change", uuid="u3", name="c", parent="u2", may_move=True),
        ),
        (
            _deed("create", uuid="u4", name="d", parent="u3"),
            _deed("change", uuid="u3", name="c", parent="u2", may_move=True),
        ),
        (
            _deed("change", uuid="u1", name="d", parent=None, may_move=False),
            _deed("add", uuid="u1", name="VCPU", total=1),
        ),
        (_deed("add", uuid="u3", name="VCPU", total=1), _deed("remove", uuid="u3")),
        (_deed("take", uuid="u2", name="VCPU", amount=1), _deed("remove", uuid="u2")),
        (
            _deed("take", uuid="u2", name="VCPU", amount=1),
            _deed("set_all", uuid="u2", totals={}, generation=None),
        ),
        (
            _deed("add", uuid="u1", name="CUSTOM_A", total=1),
            _deed("remove_class", name="CUSTOM_A"),
        ),
        (
            _deed("add", uuid="u1", name="CUSTOM_A", total=1),
            _deed("rename_class", old="CUSTOM_A", new="CUSTOM_B"),
        ),
        (
            _deed("create_class", name="CUSTOM_B"),
            _deed("rename_class", old="CUSTOM_A", new="CUSTOM_B"),
        ),
        (_deed("ensure_class", name="CUSTOM_B"), _deed("create_class", name="CUSTOM_B")),
        (_deed("ensure_trait", name="CUSTOM_X"), _deed("ensure_trait", name="CUSTOM_X")),
        (
            _deed("set_traits", uuid="u1", traits=frozenset({"CUSTOM_T"}), generation=0),
            _deed("remove_trait", name="CUSTOM_T"),
        ),
        (
            _deed("set_traits", uuid="u1", traits=frozenset({"HW_A"}), generation=0),
            _deed("set_aggregates", uuid="u1", uuids=("g1",), generation=None),
        ),
    ],
)
async def test_of_two_at_once_one_comes_later(deeds: Sequence[Deed], delays: tuple[int]) -> None:
    """Two conflicting concurrent changes give the records and answers of one of their orders."""
    await _check([list(deeds)], delays)


@given(_rounds, st.lists(st.integers(0, 3), min_size=1, max_size=7))
@settings(max_examples=250, deadline=None)
def test_what_happens_at_once_happens_in_some_order(
    rounds: list[list[Deed]], delays: list[int]
) -> None:
    """Random concurrent changes give the records and answers of one of their orders."""
    asyncio.run(_check(rounds, delays))
