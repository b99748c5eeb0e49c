"""Columns with the attributes of instances."""

from random import Random

import numpy as np
import pytest

from berth.tables.host.occupants import Occupant, Occupants, Resident
from berth.tables.host.resident_columns import NO_ATTRIBUTES, Attributes, ResidentColumns

ODD = ("", "a", "ä\x00\n\"'\\", "=a", "\ud800", "x" * 400)
"""Texts that a packed form could confuse or cut."""


def random_attributes(draw: Random) -> Attributes:
    """Return attributes with few distinct values, some of them odd."""
    return Attributes(
        project_id=draw.choice(("", "p1", "p2")),
        user_id=draw.choice(("", "u1", "u2")),
        image_id=draw.choice(("", "i1")),
        name=draw.choice(ODD),
        metadata={draw.choice((*ODD, "tier")): draw.choice(ODD) for _ in range(draw.randint(0, 3))},
        launched_at_s=draw.choice((0.0, 1_700_000_000.5)),
    )


def naive_count(truth: dict[str, tuple[int, Attributes]], row: int, **wanted: str) -> int:
    """Count the instances on a row whose project, user or tier is wanted."""
    return sum(
        at == row
        and wanted.get("project", one.project_id) == one.project_id
        and wanted.get("user", one.user_id) == one.user_id
        and ("tier" not in wanted or one.metadata.get("tier") == wanted["tier"])
        for at, one in truth.values()
    )


@pytest.mark.parametrize("seed", range(5))
def test_columns_say_what_was_put(seed: int) -> None:
    """After any history, attributes read as they were put, and counts equal naive ones."""
    draw, columns = Random(seed), ResidentColumns()
    truth: dict[str, tuple[int, Attributes]] = {}
    rows = 40
    for step in range(600):
        uuid = f"vm-{draw.randint(0, 200)}"
        known = truth.pop(uuid, None)
        if known is not None and draw.random() < 0.6:
            columns.remove(known[0], uuid)
        elif known is not None:
            truth[uuid] = (known[0], random_attributes(draw))
            columns.replace(known[0], uuid, truth[uuid][1])
        else:
            truth[uuid] = (draw.randrange(rows), random_attributes(draw))
            columns.put(*_args(uuid, truth), flavor_id="f", counts=True)
        if step % 60 == 59:
            _check(columns, truth, rows)
    assert len(columns) == len(truth)


def _args(uuid: str, truth: dict[str, tuple[int, Attributes]]) -> tuple[int, str, Attributes]:
    row, attributes = truth[uuid]
    return row, uuid, attributes


def _check(columns: ResidentColumns, truth: dict[str, tuple[int, Attributes]], rows: int) -> None:
    for uuid, (row, attributes) in truth.items():
        assert columns.attributes(row, uuid) == attributes
    for row in range(rows):
        assert columns.uuids(row) == {uuid for uuid, (at, _) in truth.items() if at == row}
        assert len(columns.slots(row)) == len(columns.uuids(row))
    tiers = [{"project": "p1", "tier": text} for text in ODD]
    for wanted in ({"project": "p1"}, {"project": ""}, {"project": "p2", "user": "u1"}, *tiers):
        named = {"metadata.tier" if key == "tier" else key: text for key, text in wanted.items()}
        naive = [naive_count(truth, row, **wanted) for row in range(rows)]
        assert columns.count(named, slice(0, rows)).tolist() == naive
        few = np.array([rows - 1, 3, 3], dtype=np.intp)
        assert columns.count(named, few).tolist() == [naive[-1], naive[3], naive[3]]
        assert columns.count(named, np.arange(rows)[::-1]).tolist() == naive[::-1]
        for uuid, (row, _) in truth.items():
            one = {uuid: truth[uuid]}
            assert columns.has(row, uuid, named) == bool(naive_count(one, row, **wanted))


def test_an_unknown_attribute_is_an_error() -> None:
    """A count by an attribute that does not exist names those that do."""
    with pytest.raises(ValueError, match=r"'colour' must be one of project, user, image, flavor"):
        ResidentColumns().count({"colour": "red"}, slice(0, 0))


def test_columns_of_metadata_keys_are_bounded() -> None:
    """Keys of metadata that nothing reads any more lose their columns, and counts stay right."""
    columns = ResidentColumns()
    metadata = {f"key-{number}": "v" for number in range(50)}
    columns.put(0, "vm", Attributes(metadata=metadata), flavor_id="", counts=True)
    for key in (*metadata, *metadata):
        assert columns.count({f"metadata.{key}": "v"}, slice(0, 1)).tolist() == [1]
    assert len(columns._by_key) <= 16


def test_an_instance_that_does_not_count_is_not_counted() -> None:
    """The other side of a resize on the same host is left out of counts."""
    occupants = Occupants()
    occupants.put(Occupant(Resident("vm", flavor_id="1"), 0), Attributes("p"))
    occupants.put(Occupant(Resident("move", flavor_id="1", counts=False), 0), Attributes("p"))
    assert occupants.columns.count({"project": "p"}, slice(0, 1)).tolist() == [1]
    assert occupants.columns.count({"flavor": "1"}, np.array([0])).tolist() == [1]
    assert occupants.attributes("move") == Attributes("p")
    assert occupants.attributes("unknown") == NO_ATTRIBUTES
