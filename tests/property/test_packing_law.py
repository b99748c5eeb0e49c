"""Packing keeps NUMA cells whole for guests that need all devices of a cell."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from random import Random

from hypothesis import event, given

from berth.domain.compute.flavor import Flavor
from berth.domain.compute.host import Host
from berth.domain.compute.request import Request
from berth.domain.hardware.assignment import Assignment, CellShare, DeviceShare
from berth.domain.hardware.numa import NumaCell
from berth.domain.hardware.pci import DeviceNeed, DeviceType, PciPool, aliases_of
from berth.scheduling.filters import fits_numa
from berth.scheduling.rules.rule import Query
from berth.tables.host.feed import table_of
from berth.testing.hardware_fleets import generators
from tests.property.reference_hardware import Place, suits
from tests.property.test_hardware_laws import snapshot_of

ALIASES = (
    {"name": "gpu", "vendor_id": "10de", "product_id": "1eb8"},
    {"name": "nic", "vendor_id": "8086", "product_id": "154c", "device_type": "type-VF"},
)
KINDS = (("10de", "1eb8", DeviceType.STANDARD), ("8086", "154c", DeviceType.VIRTUAL))
BY_NAME = {alias.name: alias for alias in aliases_of(ALIASES)}
RULE = fits_numa.build(pci_aliases=ALIASES, numa_packing=True)


def random_place(rng: Random) -> Place:
    """Return a host with up to four NUMA cells, devices, and instances that use some of them."""
    cells = tuple(
        NumaCell(
            number,
            frozenset(range(8 * number, 8 * number + rng.choice((1, 2, 4, 8)))),
            frozenset(),
            (),
            4096,
            (),
            number // 2,
        )
        for number in range(rng.randint(1, 4))
    )
    pools = tuple(
        PciPool(*kind, numa_node=node, count=rng.randint(1, 4))
        for kind in KINDS
        for node in (None, *range(len(cells)))
        if rng.random() < (0.2 if node is None else 0.6)
    )
    used = [
        Assignment(devices=(DeviceShare(pool.key, rng.randint(1, pool.count)),))
        for pool in pools
        if rng.random() < 0.4
    ]
    used += [
        Assignment(numa=(CellShare(cell.cell_id, 256, shared_cpus=1),))
        for cell in cells
        if rng.random() < 0.3
    ]
    return Place(Host("host", "host", "host", numa_cells=cells, pci_pools=pools), used, 99.0, 99.0)


@dataclass(frozen=True, slots=True)
class Choice:
    """The cells and devices that a guest could get of a host."""

    cells: tuple[int, ...]
    devices: tuple[DeviceShare, ...]

    @classmethod
    def of(cls, given_: Assignment) -> "Choice":
        """Return the choice in an assignment."""
        return cls(tuple(share.host_cell for share in given_.numa), given_.devices)

    def far(self, host: Host) -> int:
        """Return the number of devices that are known to be close to other cells."""
        nodes = {pool.key: pool.numa_node for pool in host.pci_pools}
        near = (None, *(self.cells or nodes.values()))
        return sum(share.count for share in self.devices if nodes[share.pool] not in near)

    def whole(self, place: Place) -> tuple[int, int]:
        """Return how many cells have all their devices free, and how many of those no guest."""
        used: Counter[str] = Counter()
        for share in [*self.devices, *(share for one in place.used for share in one.devices)]:
            used[share.pool] += share.count
        pools = place.host.pci_pools
        occupied = {*self.cells, *(share.host_cell for one in place.used for share in one.numa)}
        ids = {
            cell.cell_id
            for cell in place.host.numa_cells
            for mine in [[pool for pool in pools if pool.numa_node == cell.cell_id]]
            if mine and not any(used[pool.key] for pool in mine)
        }
        return len(ids), len(ids - occupied)


def every_choice(
    place: Place, need: DeviceNeed | None, guest_cells: int, cpus: int
) -> Iterator[Choice]:
    """Yield every way to give a guest its cells and devices."""
    host = place.host
    taken = Counter(
        share.pool for one in place.used for share in one.devices for _ in range(share.count)
    )
    fitting = [cell for cell in host.numa_cells if len(cell.cpuset) >= cpus]
    for cells in permutations(fitting, guest_cells):
        near = cells if guest_cells else None
        ids = tuple(cell.cell_id for cell in cells)
        if need is None:
            yield Choice(ids, ())
            continue
        usable = [
            pool for pool in host.pci_pools if suits(host, pool, need, BY_NAME[need.alias], near)
        ]
        for counts in product(*(range(pool.count - taken[pool.key] + 1) for pool in usable)):
            if sum(counts) == need.count:
                pairs = zip(usable, counts, strict=True)
                yield Choice(ids, tuple(DeviceShare(pool.key, n) for pool, n in pairs if n))


def random_flavor(rng: Random, cells: int, cpus: int, need: DeviceNeed | None) -> Flavor:
    """Return a flavor for so many guest cells, with devices of one alias or none."""
    specs = {"hw:numa_nodes": str(cells)} if cells else {}
    if need is not None:
        specs["pci_passthrough:alias"] = f"{need.alias}:{need.count}"
        policy = rng.choice(("", "required", "legacy", "preferred", "socket"))
        if policy:
            specs["hw:pci_numa_affinity_policy"] = policy
    return Flavor("1", "f", max(cells, 1) * cpus, max(cells, 1) * 256, extra_specs=specs)


def best_of(place: Place, choices: Sequence[Choice]) -> tuple[int, int, int]:
    """Return the fewest far devices of any choice, and the most whole cells that then remain."""
    far = min(one.far(place.host) for one in choices)
    whole = max(one.whole(place) for one in choices if one.far(place.host) == far)
    return far, *whole


@given(generators())
def test_no_other_choice_leaves_more_whole_cells(rng: Random) -> None:
    """Of the choices with the closest devices, one that leaves the most cells whole is made."""
    place = random_place(rng)
    cells, cpus = rng.choice((0, 1, 1, 1, 2)), rng.choice((1, 1, 2))
    asked = DeviceNeed(rng.choice(("gpu", "nic")), rng.randint(1, 3))
    need = asked if not cells or rng.random() < 0.8 else None
    flavor = random_flavor(rng, cells, cpus, need)
    request = Request("req", ("new",), flavor)
    query = Query(request, request.needs, 0.0, None, "new")
    if need is not None:
        (need,) = query.needs.devices
    choices = list(every_choice(place, need, cells, cpus))
    event(f"fits: {bool(choices)}")
    if not choices:
        return
    assert RULE.assign is not None
    given_ = RULE.assign(table_of(snapshot_of([place])), query, 0)
    assert given_ is not None
    chosen = Choice.of(given_)
    assert (chosen.far(place.host), *chosen.whole(place)) == best_of(place, choices)


@given(generators())
def test_whole_cell_guests_fit_after_others(rng: Random) -> None:
    """Small guests, one after another, use as few cells with devices as they can."""
    per_cell, cells = rng.randint(1, 4), rng.randint(1, 4)
    numa = tuple(
        NumaCell(number, frozenset(range(8 * number, 8 * number + 8)), frozenset(), (), 4096)
        for number in range(cells)
    )
    pools = tuple(
        PciPool("10de", "1eb8", numa_node=number, count=per_cell) for number in range(cells)
    )
    host = Host("host", "host", "host", numa_cells=numa, pci_pools=pools)
    small = rng.randint(1, per_cell * cells)
    flavor = random_flavor(rng, 1, 1, DeviceNeed("gpu", 1))
    request = Request("req", ("new",), flavor)
    query = Query(request, request.needs, 0.0, None, "new")
    place = Place(host, [], 99.0, 99.0)
    for _ in range(small):
        assert RULE.assign is not None
        given_ = RULE.assign(table_of(snapshot_of([place])), query, 0)
        assert given_ is not None
        place = Place(host, [*place.used, given_], 99.0, 99.0)
    whole, _ = Choice((), ()).whole(place)
    assert whole == cells - -(-small // per_cell)
