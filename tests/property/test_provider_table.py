"""Laws of the provider table: it equals the latest records, in whatever order they arrived."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import AMOUNT_MAX, ResourceClass, StandardNames, Trait
from berth.domain.ledger.change import Change, Event, RecordRemoved, Snapshot, Usage
from berth.domain.ledger.record import Kind, kind_of
from berth.services.replica.provider_replica import ProviderReplica
from berth.tables.columnar.class_columns import ClassColumns
from berth.tables.provider.providers import ProviderTable
from berth.tables.provider.sharing import SHARES
from berth.testing.provider_strategies import CLASSES, TRAITS, provider_histories, told_providers

STANDARD = StandardNames(("VCPU", "MEMORY_MB"), (SHARES,))


class Truth:
    """Providers by uuid, and classes and traits by name, as a ledger has them."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.providers: dict[str, Provider] = {}
        self.names: dict[tuple[Kind, str], ResourceClass | Trait] = {}
        for event in events:
            self.take(event)

    def take(self, event: Event) -> None:
        """Apply an event to the providers and names."""
        match event:
            case Provider():
                self.providers[event.uuid] = event
            case Usage() if event.provider_uuid in self.providers:
                old = self.providers[event.provider_uuid]
                generation = old.generation if event.generation is None else event.generation
                new = replace(old, used=event.used, generation=generation)
                self.providers[old.uuid] = new
            case ResourceClass() | Trait():
                self.names[kind_of(event), event.name] = event
            case RecordRemoved(Kind.PROVIDER):
                self.providers.pop(event.key, None)
            case RecordRemoved():
                self.names.pop((event.kind, event.key), None)
            case _:
                pass

    def snapshot(self) -> Snapshot:
        """Return what a new follower would load."""
        names = self.names.values()
        return Snapshot(
            version=1,
            now_s=0.0,
            providers=tuple(self.providers.values()),
            resource_classes=tuple(one for one in names if isinstance(one, ResourceClass)),
            traits=tuple(one for one in names if isinstance(one, Trait)),
        )

    def chain(self, uuid: str) -> list[str]:
        """Return a provider and its ancestors, the root last; empty without a known root."""
        chain: list[str] = []
        at: str | None = uuid
        while at is not None:
            if at in chain or at not in self.providers:
                return []
            chain.append(at)
            at = self.providers[at].parent_uuid
        return chain

    def trees(self) -> dict[str, set[str]]:
        """Return the uuids of each tree by the uuid of its root."""
        trees: dict[str, set[str]] = {}
        for uuid in self.providers:
            for root in self.chain(uuid)[-1:]:
                trees.setdefault(root, set()).add(uuid)
        return trees


def follow(events: Sequence[Event]) -> ProviderReplica:
    """Return a replica that applied these events and built its trees after each."""
    replica = ProviderReplica(STANDARD)
    for version, event in enumerate(events, 1):
        replica.apply([Change(version, event)])
        replica.table.forest()
        replica.table.sharing()
    return replica


def loaded(truth: Truth) -> ProviderReplica:
    """Return a replica that has just loaded the snapshot."""
    replica = ProviderReplica(STANDARD)
    replica.load(truth.snapshot())
    return replica


def words(replica: ProviderReplica) -> dict[str, object]:
    """Describe a replica's vocabulary."""
    known = replica.vocabulary
    return {
        "classes": known.classes.all(),
        "traits": known.find_traits(),
        "associated": (known.find_traits(associated=True), known.find_traits(associated=False)),
        "records": (dict(known.classes.records), dict(known.traits.records)),
    }


def terms(columns: ClassColumns, row: int) -> list[object]:
    """Return the values of a class's columns in a row."""
    names = (
        *("total", "used", "capacity", "room", "free", "physical_free", "ratio_free"),
        *("reserved", "min_unit", "unit_max", "step_size", "ratio"),
    )
    has = bool(columns.terms[row])
    return [has, row in columns.stepped, *(getattr(columns, name)[row].item() for name in names)]


def plain(provider: Provider) -> Provider:
    """Return the provider without zero amounts in its usage."""
    return replace(provider, used={name: n for name, n in provider.used.items() if n})


def dump(table: ProviderTable) -> dict[str, object]:
    """Describe a table by uuids, so that rows do not matter."""
    rows = table.alive_rows().tolist()
    numbers = {number: uuid for uuid, number in table.aggregate_numbers.items()}
    classes = {name: table.resource(name) for name in table.resource_classes}
    forest, sharing = table.forest(), table.sharing()

    def uuids(mine: Iterable[int]) -> list[str]:
        return sorted(map(table.uuid, mine))

    return {
        "records": {table.uuid(row): plain(table.record(row)) for row in rows},
        "waiting": {uuid: plain(one) for uuid, one in table.unattached.items()},
        "roots": {table.uuid(row): table.uuid(table.root[row]) for row in rows},
        "parents": {
            table.uuid(row): table.uuid(table.parent[row]) if table.parent[row] >= 0 else None
            for row in rows
        },
        "children": {table.uuid(row): uuids(table.lineage.children_of(row)) for row in rows},
        "traits": {table.uuid(row): table.traits.get(row) for row in rows},
        "aggregates": {
            table.uuid(row): {numbers[number] for number in table.aggregates.get(row)}
            for row in rows
        },
        "names": {name: uuids(table.by_name.rows(name)) for name in ("", "a", "b", "c")},
        "classes": {
            (name, table.uuid(row)): terms(columns, row)
            for name, columns in classes.items()
            if columns is not None
            for row in rows
        },
        "known": (set(classes), set(table.trait_names), set(table.aggregate_numbers)),
        "trees": {table.uuid(row): uuids(forest.tree(row)) for row in rows if forest.sizes[row]},
        "shares": uuids(sharing.rows.tolist()),
        "anchors": {table.uuid(row): uuids(mine) for row, mine in sharing.anchors.items()},
        "anchored": {table.uuid(row): uuids(mine) for row, mine in sharing.anchored.items()},
    }


@given(history=provider_histories(), data=st.data())
def test_any_history_makes_the_table_of_the_snapshot(
    history: list[Event], data: st.DataObject
) -> None:
    """A replica that followed any history equals one that loaded its final snapshot."""
    replica = ProviderReplica(STANDARD)
    for version, event in enumerate(history, 1):
        replica.apply([Change(version, event)])
        if data.draw(st.booleans()):
            replica.table.forest()
            replica.table.sharing()
    assert replica.table.version == len(history)
    anew = loaded(Truth(history))
    assert dump(replica.table) == dump(anew.table)
    assert words(replica) == words(anew)


@given(told=st.lists(told_providers(), max_size=9), data=st.data())
def test_the_order_of_events_does_not_matter(told: list[Provider], data: st.DataObject) -> None:
    """Provider events give the same table in any order, even if some come twice."""
    providers = list({one.uuid: one for one in told}.values())
    shuffled = data.draw(st.permutations(providers))
    table = follow([*shuffled, *shuffled[:3]]).table
    assert dump(table) == dump(follow(providers).table)


@given(history=provider_histories())
def test_a_provider_is_there_when_its_parents_lead_to_a_root(history: list[Event]) -> None:
    """A provider has a row if its chain leads to a root, and is else unattached, unchanged."""
    truth, table = Truth(history), follow(history).table
    for uuid, provider in truth.providers.items():
        row = table.row_of(uuid)
        assert (row is None) == (uuid in table.unattached) == (not truth.chain(uuid))
        record = table.unattached[uuid] if row is None else table.record(row)
        assert plain(record) == plain(provider)
    assert len(truth.providers) == len(table.alive_rows()) + len(table.unattached)


@given(history=provider_histories())
def test_the_forest_equals_a_naive_one(history: list[Event]) -> None:
    """The forest's trees equal those found by climbing from each provider."""
    table = follow(history).table
    forest = table.forest()
    found = {
        table.uuid(row): set(map(table.uuid, forest.tree(row).tolist()))
        for row in np.flatnonzero(forest.sizes).tolist()
    }
    assert found == Truth(history).trees()
    assert sorted(forest.members.tolist()) == table.alive_rows().tolist()


@given(history=provider_histories())
def test_sharing_equals_a_naive_one(history: list[Event]) -> None:
    """Sharing equals a comparison of each sharing provider's aggregates with every tree."""
    truth, table = Truth(history), follow(history).table
    trees = truth.trees()
    anchors: dict[str, set[str]] = {}
    for own, tree in trees.items():
        for provider_uuid in tree:
            provider = truth.providers[provider_uuid]
            if SHARES in provider.traits:
                mine = set(provider.aggregates)
                anchors[provider_uuid] = {own, *_in_any(mine, trees, truth.providers)}
    sharing = table.sharing()
    assert {
        table.uuid(row): set(map(table.uuid, rows)) for row, rows in sharing.anchors.items()
    } == anchors
    others: dict[str, set[str]] = {}
    for provider_uuid, roots in anchors.items():
        for root in roots - {truth.chain(provider_uuid)[-1]}:
            others.setdefault(root, set()).add(provider_uuid)
    assert {
        table.uuid(row): set(map(table.uuid, rows)) for row, rows in sharing.anchored.items()
    } == others


def _in_any(
    aggregates: Collection[str],
    trees: Mapping[str, Collection[str]],
    providers: Mapping[str, Provider],
) -> set[str]:
    return {
        root
        for root, tree in trees.items()
        if any(not set(aggregates).isdisjoint(providers[one].aggregates) for one in tree)
    }


@given(history=provider_histories())
def test_an_edition_stands_for_one_statement(history: list[Event]) -> None:
    """While a revision is current, the row has the same base record and the same root."""
    replica = ProviderReplica(STANDARD)
    seen: dict[int, tuple[object, ...]] = {}
    for version, event in enumerate(history, 1):
        replica.apply([Change(version, event)])
        table = replica.table
        for row in table.alive_rows().tolist():
            stated = table.base_record(row)
            said = (id(stated), row, stated.uuid, table.uuid(table.root[row]))
            # The record is kept so that no other object can get its id().
            kept = seen.setdefault(int(table.revisions[row]), (*said, stated))
            assert kept[:-1] == said


@given(history=provider_histories())
def test_what_is_used_alone_leaves_the_edition(history: list[Event]) -> None:
    """A change of usage or of generation alone does not change a row's revision."""
    table = follow(history).table
    revisions = table.revisions.copy()
    for row in table.alive_rows().tolist():
        record = table.record(row)
        table.put_used(record.uuid, dict.fromkeys(record.inventories, 3), 99)
        table.put(replace(record, generation=100))
        assert table.generations.item(row) == 100
    assert (table.revisions == revisions).all()


@given(history=provider_histories())
def test_rows_and_numbers_are_given_again(history: list[Event]) -> None:
    """A table reuses rows and aggregate numbers, so neither exceeds the most in use together."""
    replica, truth = ProviderReplica(STANDARD), Truth()
    rows_max = numbers_max = 0
    for version, event in enumerate(history, 1):
        before = set(replica.table.aggregate_numbers)
        replica.apply([Change(version, event)])
        truth.take(event)
        table = replica.table
        here = [truth.providers[table.uuid(row)] for row in table.alive_rows().tolist()]
        aggregates = {uuid for one in here for uuid in one.aggregates}
        assert set(table.aggregate_numbers) == aggregates
        rows_max = max(rows_max, len(here))
        numbers_max = max(numbers_max, len(aggregates | before))
        assert len(table) <= rows_max
        assert len(set(table.aggregate_numbers.values())) == len(aggregates)
        assert all(number < numbers_max for number in table.aggregate_numbers.values())


@given(history=provider_histories())
def test_a_table_that_loses_everybody_has_nothing(history: list[Event]) -> None:
    """A table whose providers are all removed equals an empty one."""
    table = follow(history).table
    for uuid in Truth(history).providers:
        table.remove(uuid)
    assert dump(table) == dump(ProviderTable())
    assert not table.alive.any()
    assert (table.parent == -1).all()
    assert (table.root == -1).all()
    assert not table.traits.has_any(tuple(table.traits.names), table.all_rows).any()
    assert not any(table.aggregates.get(row) for row in range(len(table)))


@given(history=provider_histories(), amount=st.integers(1, 9))
def test_what_fits_is_what_an_inventory_says(history: list[Event], amount: int) -> None:
    """Columns fit the amounts that the inventory allows, also with no or negative capacity."""
    table = follow(history).table
    for name in table.resource_classes:
        columns = table.resource(name)
        assert columns is not None
        fits = columns.fits(amount, table.all_rows)
        for row in range(len(table)):
            expected = False
            if table.alive[row] and (inventory := table.base_record(row).inventories.get(name)):
                left = inventory.capacity - table.used(row)[name]
                expected = (
                    amount <= min(left, inventory.unit_max)
                    and amount >= inventory.min_unit
                    and amount % inventory.step_size == 0
                )
                assert abs(columns.capacity.item(row)) <= AMOUNT_MAX
            assert bool(fits[row]) == expected


@given(history=provider_histories(), other=provider_histories())
def test_who_loads_again_forgets_what_it_was(history: list[Event], other: list[Event]) -> None:
    """A replica that loads another snapshot equals one that has just started from it."""
    replica, truth = follow(history), Truth(other)
    replica.load(truth.snapshot())
    assert replica.table.version == 1
    assert dump(replica.table) == dump(loaded(truth).table)
    assert words(replica) == words(loaded(truth))


@given(history=provider_histories())
def test_known_names_are_standard_made_or_in_use(history: list[Event]) -> None:
    """The vocabulary lists each name once: standard ones, created ones by number, others in use."""
    truth, replica = Truth(history), follow(history)
    here = [truth.providers[uuid] for uuid in truth.providers if truth.chain(uuid)]
    cases = (
        (replica.vocabulary.classes.all(), STANDARD.classes, Kind.RESOURCE_CLASS),
        (replica.vocabulary.find_traits(), STANDARD.traits, Kind.TRAIT),
    )
    for found, standard, kind in cases:
        made = [one for (of, _), one in truth.names.items() if of is kind]
        in_use = {name for one in here for name in (*one.inventories, *one.traits)}
        in_use |= {name for one in here for name, amount in one.used.items() if amount}
        in_use &= set(CLASSES if kind is Kind.RESOURCE_CLASS else TRAITS)
        expected = dict.fromkeys(standard)
        expected |= dict.fromkeys(one.name for one in sorted(made, key=_by_number))
        expected |= dict.fromkeys(sorted(in_use))
        assert found == list(expected)


def _by_number(record: ResourceClass | Trait) -> tuple[int, str]:
    return record.number, record.name
