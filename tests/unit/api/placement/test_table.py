"""The table of routes: complete, without overlaps, and consistent with the policy."""

from collections import defaultdict
from itertools import pairwise

import pytest

from berth.api.placement.actions import PUBLIC, PlacementRoute
from berth.api.placement.dispatch import Matcher
from berth.api.placement.handlers.root import show_versions
from berth.api.placement.routes import ACTIONS
from berth.api.placement.rules import ACTION_RULES
from berth.api.placement.versions import MINOR_MAX

ROUTES = {
    "": "GET",
    "/": "GET",
    "/resource_providers": "GET POST",
    "/resource_providers/{uuid}": "GET PUT DELETE",
    "/resource_providers/{uuid}/inventories": "GET POST PUT DELETE",
    "/resource_providers/{uuid}/inventories/{resource_class}": "GET PUT DELETE",
    "/resource_providers/{uuid}/usages": "GET",
    "/resource_providers/{uuid}/aggregates": "GET PUT",
    "/resource_providers/{uuid}/allocations": "GET",
    "/resource_providers/{uuid}/traits": "GET PUT DELETE",
    "/traits": "GET",
    "/traits/{name}": "GET PUT DELETE",
    "/resource_classes": "GET POST",
    "/resource_classes/{name}": "GET PUT DELETE",
    "/allocations": "POST",
    "/allocations/{consumer_uuid}": "GET PUT DELETE",
    "/allocation_candidates": "GET",
    "/usages": "GET",
    "/reshaper": "POST",
}


def faults_of(actions: tuple[PlacementRoute, ...]) -> list[str]:
    """Return the faults in the versions of a table."""
    found: dict[str, list[PlacementRoute]] = defaultdict(list)
    for action in actions:
        found[f"{action.method} {action.path}"].append(action)
    faults: list[str] = []
    for name, same in found.items():
        for action in same:
            if not 0 <= action.since <= action.until <= MINOR_MAX:
                faults.append(f"{name}: no range")
            for steps in (action.takes, action.asks):
                minors = [minor for minor, _ in steps or ()]
                if steps is not None and (
                    minors != sorted(set(minors))
                    or minors[0] != action.since
                    or minors[-1] > action.until
                ):
                    faults.append(f"{name}: steps {minors}")
        ranges = sorted((action.since, action.until) for action in same)
        for (_, before), (after, _) in pairwise(ranges):
            if after <= before:
                faults.append(f"{name}: overlap at 1.{after}")
            if after > before + 1:
                faults.append(f"{name}: gap after 1.{before}")
        if len({action.missing for action in same}) > 1:
            faults.append(f"{name}: missing in two ways")
    return faults


def test_every_route_of_the_api_is_there() -> None:
    """The table has exactly these paths and methods."""
    found: dict[str, set[str]] = defaultdict(set)
    for action in ACTIONS:
        found[action.path].add(action.method)
    assert found == {path: set(methods.split()) for path, methods in ROUTES.items()}


def test_versions_neither_overlap_nor_have_gaps() -> None:
    """The versions of a route are contiguous, and schema steps begin with their route."""
    assert faults_of(ACTIONS) == []


def _action(since: int, until: int, missing: int = 404) -> PlacementRoute:
    return PlacementRoute(
        "GET", "/x", show_versions, PUBLIC, since=since, until=until, missing=missing
    )


@pytest.mark.parametrize(
    ("actions", "fault"),
    [
        ((_action(0, 5), _action(5, 9)), "overlap at 1.5"),
        ((_action(0, 5), _action(7, 9)), "gap after 1.5"),
        ((_action(0, 5), _action(6, 9, 405)), "missing in two ways"),
        ((_action(3, 2),), "no range"),
    ],
)
def test_a_wrong_table_is_noticed(actions: tuple[PlacementRoute, ...], fault: str) -> None:
    """`faults_of` finds each kind of fault."""
    assert any(fault in one for one in faults_of(actions))


def test_every_action_has_a_rule_and_every_rule_an_action() -> None:
    """The rules of the routes are exactly those of the policy."""
    assert {action.rule for action in ACTIONS} - {PUBLIC} == set(ACTION_RULES)


def test_only_the_versions_document_is_public() -> None:
    """Every other route requires authentication."""
    assert {action.path for action in ACTIONS if action.rule == PUBLIC} == {"", "/"}


def test_what_is_missing_is_404_but_for_one() -> None:
    """Only DELETE of all inventories does not get 404 before its version."""
    others = {(action.method, action.path) for action in ACTIONS if action.missing != 404}
    assert others == {("DELETE", "/resource_providers/{uuid}/inventories")}


def test_parameters_of_equally_long_paths_are_at_the_same_places() -> None:
    """Paths of equal length must have their parameters at equal positions."""
    with pytest.raises(ValueError, match="other positions"):
        Matcher(
            [
                PlacementRoute("GET", "/traits/{name}", show_versions, PUBLIC),
                PlacementRoute("GET", "/{name}/traits", show_versions, PUBLIC),
            ]
        )


@pytest.mark.parametrize(
    ("path", "keys"),
    [
        ("", {}),
        ("/", {}),
        ("/traits", {}),
        ("/traits/CUSTOM_A", {"name": "CUSTOM_A"}),
        ("/resource_providers/☃", {"uuid": "☃"}),
        ("/resource_providers/u/inventories/VCPU", {"uuid": "u", "resource_class": "VCPU"}),
    ],
)
def test_a_path_is_found_with_its_parameters(path: str, keys: dict[str, str]) -> None:
    """A path is matched, and its parameters are returned."""
    found = Matcher(ACTIONS).find(path)
    assert found is not None
    methods, given = found
    assert given == keys
    assert methods["GET"][0].path.count("{") == len(keys)


@pytest.mark.parametrize(
    "path",
    [
        "/nowhere",
        "/traits/",
        "/resource_providers/",
        "//",
        "/resource_providers/u/cows",
        "/resource_providers//inventories",
        "/resource_providers/u/inventories/",
        "/resource_providers/u/inventories/VCPU/x",
        "/traits/a\x00b",
        "/traits/a\nb",
        f"/traits/{'A' * 1025}",
        "traits",
    ],
)
def test_other_paths_lead_nowhere(path: str) -> None:
    """Unknown paths, trailing slashes and unprintable characters do not match."""
    assert Matcher(ACTIONS).find(path) is None
