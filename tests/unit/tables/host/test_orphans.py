"""Strays: instances whose host is not in the table."""

from berth.tables.host.occupants import Resident
from berth.tables.host.orphans import Stray, Strays


def stray(uuid: str, name: str, node: str | None) -> Stray:
    """Return an instance that is on a host by name."""
    return Stray(Resident(uuid), name, node)


def test_a_host_takes_its_own() -> None:
    """Those of other nodes stay; an instance without a node goes with the first."""
    strays = Strays()
    for one in (stray("a", "h", "n1"), stray("b", "h", "n2"), stray("c", "h", None)):
        strays.put(one)
    assert {one.uuid for one in strays.take("h", "n1")} == {"a", "c"}
    assert strays.take("h", "n1") == []
    assert strays.take("other", "n2") == []
    assert [one.uuid for one in strays.take("h", "n2")] == ["b"]


def test_members_of_a_group_are_known_until_the_last_has_left() -> None:
    """Whichever way they leave."""
    strays = Strays()
    assert not strays.has_member("g")
    for uuid, name in (("a", "h"), ("b", "other")):
        strays.put(Stray(Resident(uuid, group_uuid="g"), name, None))
    strays.remove("a")
    assert strays.has_member("g")
    assert not strays.has_member("h")
    strays.take("other", "n")
    assert not strays.has_member("g")


def test_a_removed_instance_waits_no_more() -> None:
    """Removing one that is not there is no error."""
    strays = Strays()
    strays.put(stray("a", "h", "h"))
    strays.remove("a")
    strays.remove("a")
    assert strays.take("h", "h") == []
