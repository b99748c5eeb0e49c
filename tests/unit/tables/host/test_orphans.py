"""Tests for orphans, the instances whose host is not in the table."""

from berth.tables.host.occupants import Resident
from berth.tables.host.orphans import LocatedResident, Orphans


def located(uuid: str, name: str, node: str | None) -> LocatedResident:
    """Return an instance with the name and node of its host."""
    return LocatedResident(Resident(uuid), name, node)


def test_a_host_takes_its_own() -> None:
    """A host takes the instances of its own node and those without a node."""
    orphans = Orphans()
    for one in (located("a", "h", "n1"), located("b", "h", "n2"), located("c", "h", None)):
        orphans.put(one)
    assert {one.uuid for one in orphans.take("h", "n1")} == {"a", "c"}
    assert orphans.take("h", "n1") == []
    assert orphans.take("other", "n2") == []
    assert [one.uuid for one in orphans.take("h", "n2")] == ["b"]


def test_members_of_a_group_are_known_until_the_last_has_left() -> None:
    """A group has a member until the last one is removed or taken by its host."""
    orphans = Orphans()
    assert not orphans.has_member("g")
    for uuid, name in (("a", "h"), ("b", "other")):
        orphans.put(LocatedResident(Resident(uuid, group_uuid="g"), name, None))
    orphans.remove("a")
    assert orphans.has_member("g")
    assert not orphans.has_member("h")
    orphans.take("other", "n")
    assert not orphans.has_member("g")


def test_a_removed_instance_is_no_orphan() -> None:
    """A removed instance is not taken by its host; a second removal changes nothing."""
    orphans = Orphans()
    orphans.put(located("a", "h", "h"))
    orphans.remove("a")
    orphans.remove("a")
    assert orphans.take("h", "h") == []
