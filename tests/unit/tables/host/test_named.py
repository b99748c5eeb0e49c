"""Hosts by what they are called."""

from dataclasses import fields, replace

from berth.domain.compute.host import Host
from berth.domain.hardware.numa import NumaCell
from berth.domain.hardware.pci import PciPool
from berth.tables.host.hosts import HostTable
from berth.testing.fleets import Box

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
    """None is left at what it is by default."""
    hosts = HostTable()
    row = hosts.put_host(RICH)
    made = hosts.host(row)
    assert made == RICH
    plain = Host("u", "n", "n")
    for one in fields(Host):
        assert getattr(made, one.name) != getattr(plain, one.name), one.name


def test_every_attribute_that_changes_is_noticed() -> None:
    """The record that was made before is not given again, and a report of the same is none."""
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
    """Each is its own."""
    hosts = HostTable()
    boxes = [Box(f"h{number}") for number in range(600)]
    for box in boxes:
        hosts.put_host(box.host)
    for _ in range(2):
        assert [hosts.host(row) for row in range(600)] == [box.host for box in boxes]
