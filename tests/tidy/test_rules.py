"""Every filter, weigher and driver can be found under its name, and is tested."""

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
    """Read a group from pyproject.toml, so that a stale installation cannot mislead."""
    with (checkout.root / "pyproject.toml").open("rb") as file:
        named = tomllib.load(file)["project"]["entry-points"][group]
    return [EntryPoint(name, value, group) for name, value in named.items()]


@pytest.mark.parametrize("group", FOLDERS)
def test_an_entry_point_builds_what_its_name_says(checkout: Checkout, group: str) -> None:
    """The name in pyproject.toml and the name of what is built are the same."""
    assert {point.name: point.load()().name for point in entry_points(checkout, group)} == {
        point.name: point.name for point in entry_points(checkout, group)
    }


@pytest.mark.parametrize("group", FOLDERS)
def test_every_module_has_an_entry_point(checkout: Checkout, group: str) -> None:
    """No rule or driver lies in the folder without being on offer."""
    modules = {
        ".".join(path.with_suffix("").parts[1:])
        for path in checkout.below(FOLDERS[group])
        if path.stem != "__init__"
    }
    assert modules == {point.module for point in entry_points(checkout, group)}


def _code_name(point: EntryPoint) -> str:
    """Return the function of a rule that shares its module, or else the module."""
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
