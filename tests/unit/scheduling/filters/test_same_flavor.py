"""Tests for TypeAffinityFilter."""

from dataclasses import replace

from berth.domain.compute.flavor import Flavor
from berth.domain.compute.instance import Instance
from berth.scheduling.filters import same_flavor
from berth.tables.host.feed import table_of
from berth.tables.host.occupants import Resident
from berth.testing.fleets import Box, asking, resident, snapshot_of
from tests.unit.scheduling.conftest import Ask

RULE = same_flavor.build()
EMPTY, SMALL, MIXED, LARGE = Box("empty"), Box("small"), Box("mixed"), Box("large")


def of_flavor(uuid: str, box: Box, flavor_id: str) -> Instance:
    """Return an instance of this flavor on a box."""
    return replace(resident(uuid, box), flavor=Flavor(flavor_id, flavor_id, 1, 512))


SNAPSHOT = snapshot_of(
    [EMPTY, SMALL, MIXED, LARGE],
    instances=[
        of_flavor("a", SMALL, "1"),
        of_flavor("b", SMALL, "1"),
        of_flavor("c", MIXED, "1"),
        of_flavor("d", MIXED, "9"),
        of_flavor("e", LARGE, "9"),
        of_flavor("f", LARGE, "7"),
        of_flavor("g", LARGE, "9"),
    ],
)


def test_empty_hosts_and_hosts_of_the_flavor_stay(ask: Ask) -> None:
    """Hosts without instances of other flavors stay."""
    assert ask(SNAPSHOT, asking()).kept(RULE) == ["empty", "small"]
    other = asking(Flavor("8", "small", 1, 512))
    assert ask(SNAPSHOT, other).kept(RULE) == ["empty"]


def test_the_index_follows_the_table() -> None:
    """The counts by flavor follow instances that come and go."""
    hosts = table_of(SNAPSHOT)
    assert hosts.occupants.flavor_rows("1") == {1: 2, 2: 1}
    hosts.remove_instance("c")
    hosts.remove_instance("a")
    assert hosts.occupants.flavor_rows("1") == {1: 1}
    hosts.put_instance("empty/empty", Resident("new", flavor_id="7"))
    assert hosts.occupants.flavor_rows("7") == {0: 1, 3: 1}


def test_the_reason_counts_the_other_flavors(ask: Ask) -> None:
    """The reason counts the instances of other flavors."""
    asked = ask(SNAPSHOT, asking())
    assert asked.why(RULE, 3) == (
        "it has instances that are not of flavor 1: 1 of flavor 7, 2 of flavor 9"
    )
    assert asked.why(RULE, 2) == "it has instances that are not of flavor 1: 1 of flavor 9"
    assert asked.relaxed(RULE, [3, 2]) == [
        ("without keeping flavors apart: 2 hosts", ("large", "mixed"))
    ]
