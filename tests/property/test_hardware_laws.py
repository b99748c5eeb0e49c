"""Laws of NUMA cells and devices: verdicts are the exhaustive ones; nothing is given twice."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np
from hypothesis import event, given
from hypothesis import strategies as st

from berth.domain.compute.flavor import Flavor
from berth.domain.compute.host import Host
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.request import Request
from berth.domain.errors import InvalidInputError
from berth.domain.hardware.assignment import Assignment
from berth.domain.hardware.guest_topology import CpuPolicy, PageSizeClass, ThreadPolicy
from berth.domain.hardware.pci import aliases_of
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import MEMORY_MB, PCPU, VCPU, Inventory
from berth.domain.ledger.change import Snapshot
from berth.scheduling.filters import fits_numa, has_devices
from berth.scheduling.rules.rule import UNCOUNTED, Filter, Query
from berth.tables.host.feed import table_of
from berth.tables.host.hosts import HostTable
from berth.tables.host.occupants import Resident
from berth.testing.dumping import dump
from berth.testing.hardware_fleets import (
    ALIASES,
    generators,
    random_flavor,
    random_host,
    random_image,
    random_use,
)
from tests.property.reference_hardware import Place, fits

NUMA = fits_numa.build(pci_aliases=ALIASES)
PCI = has_devices.build(pci_aliases=ALIASES)
BY_NAME = {alias.name: alias for alias in aliases_of(ALIASES)}
PLACED_MAX = 150
"""Larger counts of guests are checked only up to this number, to save time."""
RATIOS = ((16.0, 1.5), (1.0, 1.0), (2.0, 1.0), (4.0, 0.9))


def instance(host: Host, number: int, assignment: Assignment) -> Instance:
    """Return an active instance that has this assignment of a host."""
    return Instance(
        uuid=f"old-{host.name}-{number}",
        name="old",
        project_id="p",
        user_id="u",
        request_id="r",
        reservation_id="r",
        flavor=Flavor("1", "f", 1, 1),
        status=Status.ACTIVE,
        task=None,
        host=host.name,
        node=host.node,
        assignment=assignment,
    )


def provider(host: Host, cpu_ratio: float, memory_ratio: float) -> Provider:
    """Return the root provider of a host, with these allocation ratios."""
    inventories = {
        VCPU: Inventory(64, allocation_ratio=cpu_ratio),
        PCPU: Inventory(64),
        MEMORY_MB: Inventory(65_536, allocation_ratio=memory_ratio),
    }
    return Provider(host.uuid, host.name, inventories=inventories)


def snapshot_of(places: Sequence[Place]) -> Snapshot:
    """Return a snapshot of the places' hosts, providers and instances."""
    return Snapshot(
        version=1,
        now_s=0.0,
        hosts=tuple(place.host for place in places),
        providers=tuple(provider(p.host, p.cpu_ratio, p.memory_ratio) for p in places),
        instances=tuple(
            instance(place.host, number, one)
            for place in places
            for number, one in enumerate(place.used)
        ),
    )


def random_place(rng: Random, name: str = "host") -> Place:
    """Return a random host with random assignments and allocation ratios."""
    host = random_host(rng, name)
    used = random_use(rng, host.numa_cells, host.pci_pools)
    return Place(host, used, *rng.choice(RATIOS))


def random_query(rng: Random) -> Query | None:
    """Return a random query, None when its flavor contradicts itself."""
    request = Request("req", ("new",), random_flavor(rng), image=random_image(rng))
    try:
        return Query(request, request.needs, 0.0, None, "new")
    except InvalidInputError:
        return None


@given(generators())
def test_the_masks_say_what_trying_everything_says(rng: Random) -> None:
    """Both filters keep what the model keeps, for all rows and for some, when asked repeatedly."""
    places = [random_place(rng, f"h{number}") for number in range(rng.randint(1, 4))]
    query = random_query(rng)
    if query is None:
        event("refused")
        return
    hosts, needs = table_of(snapshot_of(places)), query.needs
    expected = [fits(one, needs.topology, needs.devices, BY_NAME) for one in places]
    anywhere = [fits(one, None, needs.devices, BY_NAME) for one in places]
    for rule, right in ((NUMA, expected), (PCI, anywhere)):
        applies = needs.topology is not None if rule is NUMA else bool(needs.devices)
        for _ in range(2):
            every = rule.keep(hosts, query, hosts.all_rows)
            assert (every is not None) == applies
            if every is None:
                continue
            assert every.tolist() == right, rule.name
            event(f"{rule.name}: {sum(right) > 0}")
            some = np.array(rng.sample(range(len(places)), rng.randint(0, len(places))), np.intp)
            found = rule.keep(hosts, query, some)
            assert found is not None
            assert found.tolist() == [right[row] for row in some.tolist()]


@given(generators(), st.booleans())
def test_what_is_assigned_is_free_and_what_was_asked_for(rng: Random, packs: bool) -> None:
    """An assignment has free CPUs by the policies, the memory asked for, and free devices."""
    place, query = random_place(rng), random_query(rng)
    if query is None:
        return
    hosts, needs = table_of(snapshot_of([place])), query.needs
    rule = fits_numa.build(pci_aliases=ALIASES, numa_packing=packs)
    passes = fits(place, needs.topology, needs.devices, BY_NAME)
    assert rule.assign is not None
    given_ = rule.assign(hosts, query, 0)
    event(f"passes: {passes}")
    if not passes or given_ is None:
        assert not passes or (needs.topology is None and not needs.devices)
        return
    devices = Counter(share.alias for share in given_.devices for _ in range(share.count))
    assert devices == Counter(need.alias for need in needs.devices for _ in range(need.count))
    _check_cells(place, query, given_)
    # The verdict on one more such instance must be right after the assignment is used.
    hosts.put_instance(place.host.uuid, Resident("new", assignment=given_))
    after = Place(place.host, [*place.used, given_], place.cpu_ratio, place.memory_ratio)
    again = rule.keep(hosts, query, hosts.all_rows)
    if again is not None:
        assert again[0] == fits(after, needs.topology, needs.devices, BY_NAME)
    before = {pool.key: pool.free for pool in table_of(snapshot_of([place])).pci.pools(0)}
    for pool in hosts.pci.pools(0):
        mine = sum(share.count for share in given_.devices if share.pool == pool.key)
        assert mine <= before[pool.key]


@given(generators(), st.booleans())
def test_as_many_guests_fit_in_turn_as_are_counted(rng: Random, packs: bool) -> None:
    """Where guests are counted without trials, exactly as many can be placed one after another."""
    place, query = random_place(rng), random_query(rng)
    if query is None or query.needs.topology is None:
        return
    hosts = table_of(snapshot_of([place]))
    rule = fits_numa.build(pci_aliases=ALIASES, numa_packing=packs)
    if not passes_once_more(rule, hosts, query):
        return
    assert rule.repeats is not None
    (count,) = rule.repeats(hosts, query, np.array((0,), np.intp)).tolist()
    event(f"counted: {count != UNCOUNTED}")
    assert rule.bound is not None
    bound = rule.bound(hosts, query)
    assert bound is not None
    assert bound[0] >= count
    if count == UNCOUNTED:
        return
    # Memory may be overcommitted without a limit, so many guests can fit.
    placed = 0
    while placed <= min(count, PLACED_MAX) and passes_once_more(rule, hosts, query):
        assert rule.assign is not None
        one = Resident(f"new-{placed}", assignment=rule.assign(hosts, query, 0))
        hosts.put_instance(place.host.uuid, one)
        placed += 1
    assert placed == count or placed > PLACED_MAX <= count


def passes_once_more(rule: Filter, hosts: HostTable, query: Query) -> bool:
    """Return whether the only host of a table passes a filter."""
    verdict = rule.keep(hosts, query, hosts.all_rows)
    return verdict is not None and bool(verdict[0])


@given(generators(), st.booleans())
def test_as_many_equal_guests_get_devices_as_possible(rng: Random, packs: bool) -> None:
    """Equal guests, one after another, get devices until no assignment serves one more of them."""
    host = random_host(rng, "host")
    place = Place(replace(host, pci_pools=host.pci_pools[:4]), [], 1.0, 1.0)
    names = rng.sample(sorted(BY_NAME), 2)
    specs = {"pci_passthrough:alias": ",".join(f"{name}:1" for name in names)}
    request = Request("req", ("new",), Flavor("1", "f", 1, 256, extra_specs=specs))
    query = Query(request, request.needs, 0.0, None, "new")
    rule = has_devices.build(pci_aliases=ALIASES, numa_packing=packs)
    assert rule.assign is not None
    placed = 0
    while placed < 3 and fits(place, None, query.needs.devices, BY_NAME):
        hosts = table_of(snapshot_of([place]))
        kept = rule.keep(hosts, query, hosts.all_rows)
        assert kept is not None
        assert kept.all()
        given_ = rule.assign(hosts, query, 0)
        assert given_ is not None
        place = replace(place, used=[*place.used, given_])
        placed += 1
    event(f"placed {placed}")
    more = query.needs.devices * (placed + 1)
    assert placed == 3 or not fits(replace(place, used=[]), None, more, BY_NAME)


def _check_cells(place: Place, query: Query, given_: Assignment) -> None:
    topology = query.needs.topology
    if topology is None:
        assert given_.numa == ()
        return
    cells = {cell.cell_id: cell for cell in place.host.numa_cells}
    assert len({share.host_cell for share in given_.numa}) == len(topology.cells)
    for number, (guest, share) in enumerate(zip(topology.cells, given_.numa, strict=True)):
        cell = cells[share.host_cell]
        taken = {
            cpu
            for one in place.used
            for other in one.numa
            if other.host_cell == share.host_cell
            for cpu in other.taken_cpus
        }
        host_cpus = [cpu for _, cpu in share.pinned]
        assert {cpu for cpu, _ in share.pinned} == guest.dedicated_cpus
        mine = [*host_cpus, *share.emulator_cpus, *share.idle_cpus]
        assert len(set(mine)) == len(mine)
        assert set(mine) <= cell.pcpuset - taken
        isolated = topology.isolates_emulator and number == 0
        assert len(share.emulator_cpus) == isolated
        assert (share.memory_mb, share.shared_cpus) == (guest.memory_mb, len(guest.shared_cpus))
        _check_pages(cell.mempages and topology.page_size, share.page_size_kb)
        if topology.cpu_policy is not CpuPolicy.SHARED:
            _check_threads(cell.siblings, topology.thread_policy, host_cpus, taken)


def _check_pages(wish: object, size_kb: int | None) -> None:
    if isinstance(wish, int):
        assert size_kb == wish
    else:
        assert (size_kb is None) == (not isinstance(wish, PageSizeClass))


def _check_threads(
    siblings: Sequence[frozenset[int]],
    policy: ThreadPolicy | None,
    cpus: Sequence[int],
    taken: set[int],
) -> None:
    per_core = [len(core & set(cpus)) for core in siblings]
    if policy is ThreadPolicy.ISOLATE:
        assert max(per_core) == 1
        assert not any(core & taken for core in siblings if core & set(cpus))
    if policy is ThreadPolicy.REQUIRE and cpus:
        # All but the last core give equal numbers; a single thread may be left over.
        assert sum(count == 1 for count in per_core) <= 1
        assert len(cpus) == 1 or max(per_core) > 1


@given(generators(), st.integers(1, 30))
def test_a_table_that_followed_changes_equals_one_that_was_loaded(rng: Random, steps: int) -> None:
    """After random changes of hosts and instances, the table equals one loaded from a snapshot."""
    hosts = HostTable()
    places: dict[str, Place] = {}
    for _ in range(steps):
        name = f"h{rng.randrange(3)}"
        match rng.randrange(4):
            case 0 | 1:
                old = places.get(name)
                new = random_place(rng, name)
                used = old.used if old else []
                places[name] = Place(new.host, used, new.cpu_ratio, new.memory_ratio)
                hosts.put_host(new.host)
                hosts.put_provider(provider(new.host, new.cpu_ratio, new.memory_ratio))
            case 2 if name in places:
                place = places[name]
                for number, _ in enumerate(place.used):
                    hosts.remove_instance(f"old-{name}-{number}")
                used = random_use(rng, place.host.numa_cells, place.host.pci_pools)
                places[name] = Place(place.host, used, place.cpu_ratio, place.memory_ratio)
                for number, one in enumerate(used):
                    resident = Resident(f"old-{name}-{number}", assignment=one, flavor_id="1")
                    hosts.put_instance(place.host.uuid, resident)
            case _ if name in places:
                for number, _ in enumerate(places[name].used):
                    hosts.remove_instance(f"old-{name}-{number}")
                hosts.remove_host(places.pop(name).host.uuid)
            case _:
                continue
        if not rng.randrange(3):
            _ask(rng, hosts)
    loaded = table_of(snapshot_of(list(places.values())))
    assert _hardware(hosts) == _hardware(loaded)
    query = random_query(rng)
    if query is not None:
        for rule in (NUMA, PCI):
            assert _kept(rule.keep(hosts, query, hosts.all_rows), hosts) == _kept(
                rule.keep(loaded, query, loaded.all_rows), loaded
            )


def _ask(rng: Random, hosts: HostTable) -> None:
    query = random_query(rng)
    if query is not None:
        NUMA.keep(hosts, query, hosts.all_rows)
        PCI.keep(hosts, query, hosts.all_rows)


def _hardware(hosts: HostTable) -> object:
    rows = dump(hosts)["hosts"]
    assert isinstance(rows, dict)
    return {uuid: (row["numa"], row["pci"]) for uuid, row in rows.items()}


def _kept(mask: object, hosts: HostTable) -> set[str] | None:
    if mask is None:
        return None
    assert isinstance(mask, np.ndarray)
    return set(hosts.names(np.flatnonzero(mask & hosts.alive)))
