"""Providers as JSON, from layouts that are cached between requests."""

import gc
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from berth.api.placement.views.providers import ProviderWriter, root_uuid_of
from berth.domain.inventory.provider import Provider
from berth.tables.provider.providers import ProviderTable

ROOT = Provider("r", 'ro%ot "1"', generation=3, created_at_s=5.0)
CHILD = Provider("c", "chïld%d", "r", generation=1, updated_at_s=9.0)


@pytest.fixture
def table() -> ProviderTable:
    """Return a table with a root and its child."""
    table = ProviderTable()
    table.put(ROOT)
    table.put(CHILD)
    return table


def _listed(writer: ProviderWriter, table: ProviderTable, minor: int = 39) -> list[dict[str, Any]]:
    body = writer.listed(table, table.alive_rows(), minor)
    found: list[dict[str, Any]] = msgspec.json.decode(body)["resource_providers"]
    return found


@pytest.mark.parametrize(
    ("minor", "links"),
    [
        (0, ["self", "inventories", "usages"]),
        (1, ["self", "inventories", "usages", "aggregates"]),
        (5, ["self", "inventories", "usages", "aggregates"]),
        (6, ["self", "inventories", "usages", "aggregates", "traits"]),
        (11, ["self", "inventories", "usages", "aggregates", "traits", "allocations"]),
        (39, ["self", "inventories", "usages", "aggregates", "traits", "allocations"]),
    ],
)
def test_links_come_with_their_versions(table: ProviderTable, minor: int, links: list[str]) -> None:
    """Each link appears in its version and is below the prefix."""
    (root, _) = _listed(ProviderWriter("/placement"), table, minor)
    assert [link["rel"] for link in root["links"]] == links
    assert root["links"][0]["href"] == "/placement/resource_providers/r"
    assert root["links"][-1]["href"] == f"/placement/resource_providers/r/{links[-1]}"


@pytest.mark.parametrize("minor", [13, 14])
def test_trees_are_told_from_1_14(table: ProviderTable, minor: int) -> None:
    """Names with special characters are unchanged, and parent and root are shown from 1.14 on."""
    root, child = _listed(ProviderWriter(""), table, minor)
    assert (root["name"], root["generation"]) == ('ro%ot "1"', 3)
    assert (child["name"], child["generation"]) == ("chïld%d", 1)
    keys = ("parent_provider_uuid", "root_provider_uuid")
    told = [tuple(one.get(key, "-") for key in keys) for one in (root, child)]
    assert told == ([(None, "r"), ("r", "r")] if minor == 14 else [("-", "-")] * 2)


def test_what_changed_is_told_anew(table: ProviderTable) -> None:
    """Changes of providers and trees, reused rows and another table are reflected."""
    writer = ProviderWriter("")
    _listed(writer, table)
    table.put_used("r", {}, 8)
    table.put(replace(CHILD, name="other"))
    assert [(one["name"], one["generation"]) for one in _listed(writer, table)] == [
        (ROOT.name, 8),
        ("other", 1),
    ]
    table.put(Provider("top", "top"))
    table.put(replace(ROOT, parent_uuid="top"))
    assert {one["root_provider_uuid"] for one in _listed(writer, table)} == {"top"}
    table.remove("c")
    table.put(Provider("n", "new", "r"))
    assert {one["name"] for one in _listed(writer, table)} == {ROOT.name, "top", "new"}
    other = ProviderTable()
    other.put(Provider("z", "z"))
    assert [one["uuid"] for one in _listed(writer, other)] == ["z"]


def test_of_many_versions_only_two_layouts_are_kept(table: ProviderTable) -> None:
    """The writer keeps at most two layouts, which are large for many providers."""
    writer = ProviderWriter("")
    alive = len(_listed(writer, table)), _pages_alive()
    for minor in (0, 1, 6, 11, 14, 39):
        assert len(_listed(writer, table, minor)) == alive[0]
        assert _pages_alive() <= alive[1] + 1


def _pages_alive() -> int:
    gc.collect()
    return sum(type(found).__name__ == "_Page" for found in gc.get_objects())


def test_no_rows_are_an_empty_list(table: ProviderTable) -> None:
    """Without rows, the list is empty and has no time."""
    writer, none = ProviderWriter(""), np.zeros(0, dtype=np.intp)
    assert writer.listed(table, none, 39) == b'{"resource_providers":[]}'
    assert writer.newest_s(table, none, 39) is None


def test_the_last_change_of_the_rows_is_told(table: ProviderTable) -> None:
    """The newest time is that of the rows, or None if one of them has no time."""
    writer = ProviderWriter("")
    assert writer.newest_s(table, table.alive_rows(), 39) == 9.0
    table.put(Provider("n", "n"))
    assert writer.newest_s(table, table.alive_rows(), 39) is None


def test_one_is_shown_as_it_is_given(table: ProviderTable) -> None:
    """The given provider is shown, and only its root comes from the table."""
    writer = ProviderWriter("")
    given = replace(CHILD, name="given", generation=7)
    shown = msgspec.json.decode(writer.shown(given, root_uuid_of(table, given), 39))
    assert (shown["name"], shown["generation"], shown["root_provider_uuid"]) == ("given", 7, "r")
    gone = Provider("gone", "gone", "r")
    assert root_uuid_of(table, gone) == "r"
    assert root_uuid_of(table, replace(gone, parent_uuid=None)) == "gone"
