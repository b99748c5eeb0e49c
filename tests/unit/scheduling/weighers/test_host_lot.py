"""Tests for HostLotWeigher."""

from dataclasses import replace

from berth.scheduling.weighers import host_lot
from berth.tables.host.feed import apply_event
from berth.testing.fleets import Box, asking, snapshot_of
from tests.unit.scheduling.conftest import Ask

BOXES = [Box(f"rack-{number // 20}-{number:03d}") for number in range(200)]


def lots(ask: Ask, boxes: list[Box]) -> dict[str, float]:
    """Return the name hash of each box, by name."""
    drawn = ask(snapshot_of(boxes), asking()).shares(host_lot.build())
    assert drawn is not None
    return dict(zip((box.name for box in boxes), drawn, strict=True))


def test_a_host_keeps_its_lot(ask: Ask) -> None:
    """A host's value does not depend on other hosts or on their order."""
    everyone = lots(ask, BOXES)
    assert lots(ask, BOXES[150:20:-1]) == {box.name: everyone[box.name] for box in BOXES[21:151]}


def test_lots_are_spread_out(ask: Ask) -> None:
    """Values are distinct, within [0, 1) and spread in every rack."""
    everyone = lots(ask, BOXES)
    assert len(set(everyone.values())) == len(BOXES)
    assert all(0 <= lot < 1 for lot in everyone.values())
    for rack in range(10):
        low = [lot < 0.5 for name, lot in everyone.items() if name.startswith(f"rack-{rack}-")]
        assert 3 <= sum(low) <= 17


def test_nodes_of_one_name_draw_for_themselves(ask: Ask) -> None:
    """Values depend on the node as well as on the name."""
    boxes = [Box("host", node="node-1"), Box("host", node="node-2")]
    asked = ask(snapshot_of(boxes), asking())
    first, second = asked.shares(host_lot.build()) or []
    assert first != second
    apply_event(asked.hosts, replace(boxes[0].host, node="node-3"))
    assert asked.shares(host_lot.build()) != [first, second]


def test_its_name_and_scale() -> None:
    """The default multiplier is small enough to decide only between equal hosts."""
    weigher = host_lot.build()
    assert (weigher.name, weigher.multiplier) == ("HostLotWeigher", 0.001)
    assert (weigher.floor, weigher.ceiling) == (0.0, 1.0)
