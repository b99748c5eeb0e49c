"""Zones that are children of each other; each uses the other's capacity."""

import pytest

from tests.e2e.conftest import Processes
from tests.e2e.zones.tree import start_zone

VCPUS = 4


@pytest.mark.timeout(240)
def test_each_of_two_zones_is_filled_through_the_other(processes: Processes) -> None:
    """Either zone can fill both, and refuses a request that exceeds both."""
    east = start_zone(processes, "east", vcpus=VCPUS)
    west = start_zone(processes, "west", vcpus=VCPUS)
    pair = (east, west)
    for zone in pair:
        zone.wait()
        zone.service.flavor("small", vcpus=1, ram=512)
    for zone, other in (pair, (west, east)):
        zone.trust(other)
        other.adopt(zone)
    for zone in pair:
        zone.wait_for_children()

    for zone in pair:
        refused = zone.create(2 * VCPUS + 1)
        assert {one["status"] for one in refused} == {"ERROR"}
    assert [zone.used_vcpus() for zone in pair] == [0, 0]

    for zone in pair:
        servers = zone.create(VCPUS)
        assert {one["status"] for one in servers} == {"ACTIVE"}
    assert [zone.used_vcpus() for zone in pair] == [VCPUS, VCPUS]
    for zone in pair:
        assert "zone_in_a_ring" in zone.parts[0].log.read_text()
