"""Every filter, weigher and driver has an entry point, and every filter and weigher a test."""

import re
import tomllib
from importlib.metadata import EntryPoint

import pytest

from tests.tidy.checkout import Checkout

FOLDERS = {
    "berth.filters": "src/berth/scheduling/filters",
    "berth.weighers": "src/berth/scheduling/weighers",
    "berth.drivers": "src/berth/scheduling/drivers",
}
RULES = ["berth.filters", "berth.weighers"]


def entry_points(checkout: Checkout, group: str) -> list[EntryPoint]:
    """Return the entry points of a group from pyproject.toml, as an installation may be stale."""
    with (checkout.root / "pyproject.toml").open("rb") as file:
        named = tomllib.load(file)["project"]["entry-points"][group]
    return [EntryPoint(name, value, group) for name, value in named.items()]


@pytest.mark.parametrize("group", FOLDERS)
def test_an_entry_point_builds_what_its_name_says(checkout: Checkout, group: str) -> None:
    """Each entry point builds an object whose `name` is the name of the entry point."""
    assert {point.name: point.load()().name for point in entry_points(checkout, group)} == {
        point.name: point.name for point in entry_points(checkout, group)
    }


@pytest.mark.parametrize("group", FOLDERS)
def test_every_module_has_an_entry_point(checkout: Checkout, group: str) -> None:
    """The modules of the folder are exactly those that the entry points name."""
    modules = {
        ".".join(path.with_suffix("").parts[1:])
        for path in checkout.below(FOLDERS[group])
        if path.stem != "__init__"
    }
    assert modules == {point.module for point in entry_points(checkout, group)}


def _code_name(point: EntryPoint) -> str:
    """Return the name of the rule's function, or that of its module if it has one to itself."""
    return point.module.rpartition(".")[2] if point.attr == "build" else point.attr


@pytest.mark.parametrize("group", RULES)
def test_every_rule_has_a_test(checkout: Checkout, group: str) -> None:
    """The unit tests of scheduling mention each rule: its name, its own module, or its function."""
    tests = "\n".join(checkout.text(path) for path in checkout.below("tests/unit/scheduling"))
    untested = [
        point.name
        for point in entry_points(checkout, group)
        if not re.search(rf"\b({point.name}|{_code_name(point)})\b", tests)
    ]
    assert untested == []
