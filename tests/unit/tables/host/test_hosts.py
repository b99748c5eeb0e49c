"""Tests for the host table: rows, look-ups, and the effect of each write on a row."""

from dataclasses import fields, replace
from operator import attrgetter

import numpy as np
import pytest

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.host import Host, Service
from berth.domain.errors import NotFoundError
from berth.domain.hardware.numa import NumaCell
from berth.domain.hardware.pci import PciPool
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory
from berth.tables.columnar.journal import GROUPS
from berth.tables.host.feed import table_of
from berth.tables.host.hosts import HostTable
from berth.tables.host.occupants import Resident
from berth.testing.dumping import dump
from berth.testing.fleets import Box, resident, sized, snapshot_of, uuid_of, zone


def table(*boxes: Box) -> HostTable:
    """Return a table of boxes."""
    return table_of(snapshot_of(boxes))


def positions(hosts: HostTable) -> dict[str, int]:
    """Return the current position of each group of the journal."""
    return {group: hosts.journal.position(group) for group in GROUPS}


def groups_since(hosts: HostTable, before: dict[str, int]) -> set[tuple[int, str]]:
    """Return the rows and groups that changed since the given positions."""
    return {(row, g) for g, at in before.items() for row in hosts.journal.since(g, at) or ()}


def test_an_empty_table_has_no_rows() -> None:
    """All columns of an empty table are empty."""
    hosts = HostTable()
    assert len(hosts) == 0
    for column in (hosts.alive, hosts.enabled, hosts.forced_down, hosts.last_seen_s, hosts.rank):
        assert column.size == 0
    assert hosts.profile.size == hosts.num_instances.size == hosts.num_io_ops.size == 0
    assert hosts.alive_rows().size == 0
    assert hosts.resource("VCPU") is None
    assert hosts.resource_classes == ()


def test_a_host_is_found_by_uuid_name_and_node() -> None:
    """Hosts are found by uuid, name and node; names compare with case unless they are folded."""
    hosts = table(Box("Big", "n1"), Box("Big", "n2"), Box("c"))
    assert hosts.row_of("Big/n2") == 1
    assert hosts.host_names.of_name("Big") == {0, 1}
    assert hosts.host_names.of_folded_name("big") == {0, 1}
    assert hosts.host_names.of_node("n2") == {1}
    assert hosts.find("Big", "n2") == "Big/n2"
    assert hosts.find("Big", None) == "Big/n1"
    assert hosts.find("big", None) is None
    assert hosts.names([2, 0]) == ("c", "Big")


@pytest.mark.parametrize("row", [-1, 1, 99])
def test_an_unused_row_has_no_host(row: int) -> None:
    """Reading a row without a host raises NotFoundError."""
    hosts = table(Box("a"), Box("b"))
    hosts.remove_host(uuid_of("b"))
    with pytest.raises(NotFoundError, match=str(row)):
        hosts.host(row)


def test_rank_is_the_order_of_names() -> None:
    """The rank of a row is the position of its name and node in sorted order."""
    hosts = table(Box("c"), Box("a"), Box("b", "n2"), Box("b", "n1"))
    assert hosts.rank.tolist() == [3, 0, 2, 1]
    hosts.put_host(Box("aa").host)
    assert hosts.rank.tolist() == [4, 0, 3, 2, 1]
    hosts.remove_host(uuid_of("a"))
    assert [hosts.rank[row] for row in hosts.alive_rows()] == [3, 2, 1, 0]


def test_the_table_grows_with_its_hosts() -> None:
    """Columns, resource classes and sets grow with the hosts."""
    boxes = [Box(f"h{number:03}", traits=frozenset({f"T{number % 70}"})) for number in range(200)]
    hosts = table(*boxes)
    assert len(hosts) == 200
    vcpus = hosts.resource("VCPU")
    assert vcpus is not None
    assert vcpus.free[:200].tolist() == [8] * 200
    assert hosts.traits.get(0) == {"T0"}
    assert hosts.traits.get(199) == {"T59"}
    assert hosts.enabled.all()


def test_a_removed_host_leaves_nothing_behind() -> None:
    """A removed host's row is reused and has nothing of the former host."""
    full = Box(
        "full",
        inventories={"VCPU": Inventory(8, step_size=2), "CUSTOM_GPU": Inventory(4)},
        used={"VCPU": 2},
        traits=frozenset({"T"}),
        stats={"k": "v"},
        forced_down=True,
    )
    snapshot = snapshot_of(
        [full], aggregates=[zone("az1", "full")], instances=[resident("i", full, group_uuid="g")]
    )
    hosts = table_of(snapshot)
    hosts.hold(0, {"VCPU": 2})
    hosts.remove_host(uuid_of("full"))
    assert hosts.alive.tolist() == [False]
    assert hosts.occupants.groups.rows("g") == {}
    bare = Box("bare", inventories={}, used={})
    hosts.put_host(bare.host)
    assert hosts.row_of(uuid_of("bare")) == 0
    expected = HostTable()
    expected.put_host(bare.host)
    assert dump(hosts)["hosts"] == dump(expected)["hosts"]


def test_removing_an_unknown_host_is_no_error() -> None:
    """Removing an unknown host changes nothing."""
    hosts = table(Box("a"))
    step = hosts.journal.step
    hosts.remove_host("nobody")
    assert hosts.journal.step == step


def test_a_host_that_comes_back_has_what_the_ledger_kept() -> None:
    """A host that is added again has its inventories, usage and instances, but no holds."""
    box = Box("a", used={"VCPU": 2}, traits=frozenset({"T"}))
    hosts = table_of(snapshot_of([box], instances=[resident("i", box, group_uuid="g")]))
    before = dump(hosts)
    hosts.hold(0, {"VCPU": 3})
    hosts.remove_host(uuid_of("a"))
    hosts.put_used(uuid_of("a"), {"VCPU": 2})
    hosts.put_host(box.host)
    assert dump(hosts) == before


def test_a_renamed_host_changes_services_zones_and_instances() -> None:
    """A renamed host loses the service, zones and instances that refer to the former name."""
    box = Box("a")
    snapshot = snapshot_of(
        [box], aggregates=[zone("az1", "a")], instances=[resident("i", box, group_uuid="g")]
    )
    hosts = table_of(snapshot)
    before = positions(hosts)
    hosts.put_host(replace(box.host, name="b", node="b"))
    assert not hosts.enabled[0]
    assert hosts.zones.get(0) == frozenset()
    assert hosts.num_instances[0] == 0
    assert hosts.host_names.of_name("a") == frozenset()
    assert {what for _, what in groups_since(hosts, before)} >= {"host", "service", "instances"}
    hosts.put_host(box.host)
    assert hosts.enabled[0]
    assert hosts.zones.get(0) == {"az1"}
    assert hosts.occupants.on_row(0) == {"i"}


def test_a_report_that_changes_nothing_is_not_recorded() -> None:
    """An unchanged report of a host is not recorded in the journal."""
    hosts = table(Box("a"))
    before = positions(hosts)
    hosts.put_host(Box("a").host)
    assert groups_since(hosts, before) == set()
    hosts.put_host(Box("a", stats={"k": "v"}).host)
    assert groups_since(hosts, before) == {(0, "host")}


@pytest.mark.parametrize(
    ("write", "changed"),
    [
        (lambda hosts: hosts.put_provider(Box("a").provider), {"used", "traits"}),
        (lambda hosts: hosts.put_used(uuid_of("a"), {"VCPU": 1}), {"used"}),
        (lambda hosts: hosts.put_used(uuid_of("a"), {}), set()),
        (lambda hosts: hosts.hold(0, {"VCPU": 1}), {"used"}),
        (lambda hosts: hosts.release_hold(0, {"VCPU": 1}), {"used"}),
        (lambda hosts: hosts.put_service(Box("a").service), {"service", "seen"}),
        (lambda hosts: hosts.remove_service("a"), {"service", "seen"}),
        (lambda hosts: hosts.put_seen(["a", "nobody"], 1.0), {"seen"}),
        (lambda hosts: hosts.put_aggregate(zone("az", "a")), {"aggregates"}),
        (
            lambda hosts: hosts.put_instance(uuid_of("a"), Resident("i", building=True)),
            {"instances"},
        ),
        (lambda hosts: hosts.remove_instance("here"), {"instances"}),
        (lambda hosts: hosts.remove_instance("nowhere"), set()),
    ],
)
def test_every_write_records_the_group_that_it_changes(write: object, changed: set[str]) -> None:
    """Each write records only the groups that it changes."""
    hosts = table(Box("a"), Box("b"))
    hosts.put_instance(uuid_of("a"), Resident("here"))
    before = positions(hosts)
    assert callable(write)
    write(hosts)
    assert groups_since(hosts, before) == {(0, what) for what in changed}


def test_a_heartbeat_sets_the_time_alone() -> None:
    """A heartbeat updates the time of known services and nothing else."""
    hosts = table(Box("a", disabled=True))
    hosts.put_seen(["a", "nobody"], 123.0)
    assert hosts.last_seen_s.tolist() == [123.0]
    assert not hosts.enabled[0]
    assert hosts.services.get("nobody") is None


def test_a_service_may_come_before_its_host() -> None:
    """A service, an aggregate or a provider may come before its host."""
    hosts = HostTable()
    hosts.put_service(Service("a", "1", last_seen_s=5.0))
    hosts.put_aggregate(zone("az1", "a"))
    hosts.put_provider(Provider("a/a", "a", inventories=sized(), used={"VCPU": 1}))
    hosts.put_used("a/a", {"VCPU": 2})
    hosts.put_used("nobody", {"VCPU": 2})
    hosts.put_host(Box("a").host)
    assert hosts.enabled[0]
    assert hosts.zones.get(0) == {"az1"}
    assert hosts.used(0) == {"VCPU": 2}


def test_a_child_provider_is_no_host() -> None:
    """A child provider does not change the host's own amounts."""
    hosts = table(Box("a"))
    before = dump(hosts)
    child = Provider("numa-0", "numa", parent_uuid="a/a", inventories=sized())
    hosts.put_provider(child)
    assert [columns.free[0] for columns in (hosts.resource("VCPU"),) if columns] == [8]
    assert hosts.orphans.providers == {}
    hosts.remove_provider("numa-0")
    assert dump(hosts) == before


def test_a_host_whose_provider_is_removed_has_nothing_to_give() -> None:
    """A host whose provider is removed has no inventories, usage or traits."""
    hosts = table(Box("a", traits=frozenset({"T"}), used={"VCPU": 1}))
    hosts.remove_provider("a/a")
    assert hosts.used(0) == {}
    assert hosts.traits.get(0) == frozenset()
    vcpus = hosts.resource("VCPU")
    assert vcpus is not None
    assert vcpus.fits(1, slice(0, 1)).tolist() == [False]


def test_an_instance_is_on_one_host_at_a_time() -> None:
    """Putting an instance on another host removes it from the first one."""
    hosts = table(Box("a"), Box("b"))
    hosts.put_instance(uuid_of("a"), Resident("i", "g", building=True))
    assert (hosts.num_instances.tolist(), hosts.num_io_ops.tolist()) == ([1, 0], [1, 0])
    hosts.put_instance(uuid_of("b"), Resident("i", "g"))
    assert (hosts.num_instances.tolist(), hosts.num_io_ops.tolist()) == ([0, 1], [0, 0])
    assert hosts.occupants.groups.rows("g") == {1: 1}
    hosts.put_instance("nobody", Resident("i", "g"))
    assert hosts.num_instances.tolist() == [0, 0]


def test_aggregates_make_zones() -> None:
    """A host is in the zones of all its aggregates until it leaves them."""
    hosts = table(Box("a"), Box("b"))
    hosts.put_aggregate(zone("az1", "a", "b", number=1))
    hosts.put_aggregate(zone("az2", "b", number=2))
    assert hosts.zones.get(1) == {"az1", "az2"}
    assert hosts.memberships.by_row.get(1) == {1, 2}
    assert [one.aggregate_id for one in hosts.memberships.of_host("b")] == [1, 2]
    hosts.put_aggregate(zone("az1", "a", number=1))
    assert hosts.zones.get(1) == {"az2"}
    hosts.remove_aggregate(2)
    hosts.remove_aggregate(3)
    assert hosts.zones.get(1) == frozenset()
    assert set(hosts.aggregates) == {1}


RICH = Host(
    uuid="0123abcd-89ab-4cde-8f01-23456789abcd",
    name="Rack-1",
    node="node-1",
    hypervisor_type="QEMU",
    hypervisor_version=10**30,
    host_ip="2001:db8::1",
    cpu_info={"arch": "x86_64", "features": ["avx"]},
    supported_instances=(("x86_64", "kvm", "hvm"),),
    stats={"b": "2", "a": "1"},
    cell="cell-1",
    numa_cells=(NumaCell(0, cpuset=frozenset({0, 1}), memory_mb=64),),
    pci_pools=(PciPool("8086", "1", count=2), PciPool("8086", "2", count=1, numa_node=0)),
    child_uuids=("child",),
    allocation_ratios={"VCPU": 2.0},
    forced_ratios={"VCPU": 3.0},
    operator_ratios={"MEMORY_MB": 1.5},
    initial_ratios={"VCPU": 4.0, "DISK_GB": 1.0},
    metrics={"cpu.percent": 0.5},
)


def test_a_record_has_every_attribute_that_was_put() -> None:
    """A host record is read back with every attribute that was put."""
    hosts = HostTable()
    row = hosts.put_host(RICH)
    made = hosts.host(row)
    assert made == RICH
    plain = Host("u", "n", "n")
    for one in fields(Host):
        assert getattr(made, one.name) != getattr(plain, one.name), one.name


def test_every_attribute_that_changes_is_noticed() -> None:
    """Every changed attribute is recorded and read back; an equal report changes nothing."""
    hosts = HostTable()
    plain = Host(RICH.uuid, "n", "n")
    row = hosts.put_host(plain)
    for one in fields(Host):
        if one.name == "uuid":
            continue
        changed = replace(plain, **{one.name: getattr(RICH, one.name)})
        for host in (changed, plain):
            step = hosts.journal.step
            hosts.put_host(host)
            assert hosts.journal.step > step, one.name
            assert hosts.host(row) == host
            step = hosts.journal.step
            hosts.put_host(replace(host))
            assert hosts.journal.step == step


def test_more_hosts_can_be_asked_for_than_records_are_kept() -> None:
    """Each row returns its own host when there are more rows than cached records."""
    hosts = HostTable()
    boxes = [Box(f"h{number}") for number in range(600)]
    for box in boxes:
        hosts.put_host(box.host)
    for _ in range(2):
        assert [hosts.host(row) for row in range(600)] == [box.host for box in boxes]


@pytest.mark.parametrize(
    ("old", "new"), [("everyone", "all_rows"), ("strays", "orphans"), ("lot", "name_hash")]
)
def test_old_names_work_with_a_warning(old: str, new: str) -> None:
    """The former attribute names of the table still work and emit a DeprecationWarning."""
    hosts = HostTable()
    with pytest.warns(DeprecationWarning, match=new):
        found = getattr(hosts, old)
    expected = getattr(hosts, new)
    assert found is expected or np.array_equal(found, expected)


@pytest.mark.parametrize(
    ("old", "new", "key", "expected"),
    [
        ("rows_of_name", "host_names.of_name", "Big", {0}),
        ("rows_of_folded_name", "host_names.of_folded_name", "big", {0}),
        ("rows_of_node", "host_names.of_node", "n2", {0}),
        ("service", "services.get", "Big", Service("Big", "id")),
        ("cell_name", "cell", 0, "c"),
        ("occupants.group_rows", "groups.rows", "g", {0: 1}),
    ],
)
def test_old_methods_work_with_a_warning(old: str, new: str, key: object, expected: object) -> None:
    """The former methods of the table return the same as before and emit a DeprecationWarning."""
    hosts = HostTable()
    hosts.put_host(replace(Box("Big").host, node="n2", cell="c"))
    hosts.put_service(Service("Big", "id"))
    hosts.put_instance(hosts.uuid(0), Resident("i", group_uuid="g"))
    with pytest.warns(DeprecationWarning, match=new):
        assert attrgetter(old)(hosts)(key) == expected


def test_the_old_test_for_aggregates_works_with_a_warning() -> None:
    """`Memberships.has_any` still works and emits a DeprecationWarning."""
    hosts = table(Box("a"), Box("b"))
    hosts.put_aggregate(Aggregate(1, "u", "one", hosts=frozenset({"b"})))
    with pytest.warns(DeprecationWarning, match="by_row"):
        assert hosts.memberships.has_any([1], hosts.all_rows).tolist() == [False, True]
