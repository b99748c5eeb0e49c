"""The load of the fleet, from the host table."""

from dataclasses import replace

import pytest

from berth.domain.compute.aggregate import Aggregate
from berth.domain.errors import InvalidInputError
from berth.domain.inventory.resources import MEMORY_MB, VCPU
from berth.domain.ledger.change import Snapshot
from berth.services.fleet.fleet_load import Amounts, FleetLoad, LoadQuery, fleet_load
from berth.tables.host.feed import table_of
from berth.tables.host.hosts import HostTable
from berth.testing.builders import make_host, make_provider, make_service
from berth.testing.fleets import GPU_MILLI, children_of, gpus

NOW_S = 1_000.0


def load(hosts: HostTable, **query: object) -> FleetLoad:
    """Return the load of a table whose hosts were heard from lately."""
    asked = LoadQuery(**query)  # type: ignore[arg-type]
    return fleet_load(hosts, asked, now_s=NOW_S, down_time_s=60.0, default_zone="nova")


@pytest.fixture
def hosts() -> HostTable:
    """Return four hosts; host 3 is disabled, host 4 is silent, and host 2 is in the zone east."""
    providers = [
        replace(make_provider(number), used={VCPU: 4 * number, MEMORY_MB: 0})
        for number in (1, 2, 3, 4)
    ]
    services = [replace(make_service(number), last_seen_s=NOW_S) for number in (1, 2, 3, 4)]
    services[2] = replace(services[2], disabled=True)
    services[3] = replace(services[3], last_seen_s=NOW_S - 100.0)
    east = Aggregate(
        1, "u", "rack", hosts=frozenset({"host-2"}), metadata={"availability_zone": "east"}
    )
    return table_of(
        Snapshot(
            1,
            NOW_S,
            hosts=tuple(make_host(number) for number in (1, 2, 3, 4)),
            providers=tuple(providers),
            services=tuple(services),
            aggregates=(east,),
        )
    )


def test_hosts_are_counted_and_amounts_summed(hosts: HostTable) -> None:
    """A disabled host is neither up nor down, and all hosts count in the amounts."""
    found = load(hosts)
    assert (found.total, found.up, found.down, found.disabled) == (4, 2, 1, 1)
    assert found.resources[VCPU] == Amounts(total=64, reserved=0, capacity=64, used=40)
    assert found.resources[MEMORY_MB].used == 0
    assert (found.instances, found.tasks) == (0, 0)
    states = {host.name: host.state for host in found.hosts}
    assert states == {"host-1": "up", "host-2": "up", "host-3": "disabled", "host-4": "down"}


@pytest.mark.parametrize(
    ("order", "first"),
    [
        ("load", ["host-4", "host-3"]),
        (VCPU, ["host-4", "host-3"]),
        ("name", ["host-1", "host-2"]),
        # Ties are broken by name.
        ("instances", ["host-1", "host-2"]),
        (MEMORY_MB, ["host-1", "host-2"]),
    ],
)
def test_the_first_hosts_in_an_order_are_shown(
    hosts: HostTable, order: str, first: list[str]
) -> None:
    """The highest share comes first, names come in their order, and the totals stay."""
    found = load(hosts, order=order, limit=2)
    assert [host.name for host in found.hosts] == first
    assert found.total == 4


def test_an_availability_zone_limits_everything(hosts: HostTable) -> None:
    """The default zone has the hosts to which no aggregate assigns one."""
    east, rest = load(hosts, zone="east"), load(hosts, zone="nova")
    assert [host.name for host in east.hosts] == ["host-2"]
    assert east.hosts[0].zones == ("east",)
    assert east.resources[VCPU].used == 8
    assert {host.name for host in rest.hosts} == {"host-1", "host-3", "host-4"}
    with pytest.raises(InvalidInputError, match="'west' has no hosts"):
        load(hosts, zone="west")


def test_an_unknown_order_is_refused_with_the_known_ones(hosts: HostTable) -> None:
    """The error lists the orders, with the resource classes of the fleet."""
    with pytest.raises(InvalidInputError, match=r"use one of load, name, instances, tasks, .*VCPU"):
        load(hosts, order="vcpus")


def test_child_providers_count_for_their_host() -> None:
    """A host without a class of its own has that of its children; a full class is a full load."""
    hosts = [make_host(number) for number in (1, 2)]
    children = children_of(hosts[1].uuid, gpus(1000, 0, 250))
    table = table_of(
        Snapshot(
            1,
            NOW_S,
            hosts=tuple(hosts),
            providers=(make_provider(1), make_provider(2), *children),
            services=(make_service(1), make_service(2)),
        )
    )
    found = load(table)
    assert found.resources[GPU_MILLI] == Amounts(3000, 0, 3000, 1750)
    assert [host.name for host in found.hosts] == ["host-2", "host-1"]
    assert GPU_MILLI not in found.hosts[1].resources


def test_an_empty_fleet_has_no_load() -> None:
    """There is nothing to sort."""
    found = load(HostTable())
    assert (found.total, found.hosts, found.resources) == (0, (), {})
