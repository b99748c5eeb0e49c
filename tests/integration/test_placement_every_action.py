"""Rules for every action of the Placement API in every version: headers, versions, roles."""

from collections.abc import Mapping
from itertools import pairwise

import httpx
import pytest

from berth.api.placement.actions import PUBLIC, PlacementRoute
from berth.api.placement.routes import ACTIONS
from berth.api.placement.versions import MINOR_MAX
from tests.integration.placement_requests import RIGHT, Right, furnished
from tests.unit.api.placement.world import World

_CHANGES = (1, 3, 4, 7, 8, 11, 12, 14, 15, 18, 19, 20, 22, 23, 26, 27, 28, 33, 34, 36, 37, 38)
"""Versions with changes, besides those that introduced actions."""
_WITH_LOCATION = {
    ("POST", "/resource_providers"),
    ("POST", "/resource_providers/{uuid}/inventories"),
    ("PUT", "/traits/{name}"),
    ("POST", "/resource_classes"),
    ("PUT", "/resource_classes/{name}"),
}
_TIMED_WITHOUT_BODY = {("GET", "/traits/{name}"), ("PUT", "/traits/{name}")}

every_action = pytest.mark.parametrize(
    "action", ACTIONS, ids=[f"{one.method} {one.path} {one.since}" for one in ACTIONS]
)


def right_for(action: PlacementRoute) -> Right:
    """Return a request that succeeds."""
    return RIGHT[action.method, action.path]


async def ask(
    world: World,
    action: PlacementRoute,
    minor: int,
    headers: Mapping[str, str | None] | None = None,
) -> httpx.Response:
    """Send the request for an action, perhaps with other headers; return the answer."""
    right = right_for(action)
    body = None if right.body is None else right.body(minor)
    more = {} if body is None else {"json": body}
    return await world.service.ask(
        action.method, right.path, version=f"1.{minor}", headers=headers, **more
    )


def minors_of(action: PlacementRoute) -> list[int]:
    """Return an action's first and last version and all with changes between, in order."""
    between = {minor for minor in _CHANGES if action.since <= minor <= action.until}
    return sorted({action.since, *between, action.until})


def test_there_is_a_request_for_each() -> None:
    """There is a request for each action, and for no other method or path."""
    assert {(one.method, one.path) for one in ACTIONS} == RIGHT.keys()


@every_action
async def test_it_succeeds_in_all_its_versions(action: PlacementRoute) -> None:
    """Each action succeeds in its versions, with the headers of the version and no others."""
    for minor in minors_of(action):
        answer = await ask(await furnished(), action, minor)
        assert answer.status_code == right_for(action).status_in(minor), (minor, answer.text)
        told = answer.headers
        assert told["openstack-api-version"] == f"placement 1.{minor}"
        assert told["vary"] == "openstack-api-version"
        assert told["x-openstack-request-id"].startswith("req-")
        has_body = answer.status_code != 204 and (action.method, action.path, minor) not in {
            *(("POST", "/resource_providers", minor) for minor in range(20)),
            ("POST", "/resource_classes", minor),
            ("PUT", "/traits/{name}", minor),
        }
        assert bool(answer.content) == has_body
        assert told.get("content-type") == ("application/json" if has_body else None)
        assert ("content-length" in told) == (answer.status_code != 204)
        tells_times = has_body or (action.method, action.path) in _TIMED_WITHOUT_BODY
        is_timed = minor >= 15 and tells_times
        assert told.get("cache-control") == ("no-cache" if is_timed else None), minor
        assert told.get("last-modified", "").endswith(" GMT") == is_timed
        has_location = (action.method, action.path) in _WITH_LOCATION and action.until != 6
        assert ("location" in told) == has_location
        if has_location:
            assert told["location"].startswith("http://placement/")


@every_action
async def test_outside_of_its_versions_it_is_not_there(action: PlacementRoute) -> None:
    """An action outside its versions gets its `missing` status, and its ranges have no gaps."""
    world = await furnished()
    same = [one for one in ACTIONS if (one.method, one.path) == (action.method, action.path)]
    there = {minor for one in same for minor in range(one.since, one.until + 1)}
    for minor in sorted(set(range(MINOR_MAX + 1)) - there):
        answer = await world.service.ask(
            action.method, right_for(action).path, version=f"1.{minor}"
        )
        assert answer.status_code == action.missing, minor
    for before, after in pairwise(sorted(same, key=lambda one: one.since)):
        assert after.since == before.until + 1


@every_action
async def test_who_may(action: PlacementRoute) -> None:
    """Administrators and services succeed; other roles get 403, and a missing token 401."""
    is_public = action.rule == PUBLIC
    for headers, expected in (
        ({"x-auth-token": "somebody"}, 403),
        ({"x-auth-token": "somebody", "x-roles": "reader,member"}, 403),
        ({"x-auth-token": None}, 401),
        ({"x-auth-token": "somebody", "x-roles": "Service"}, 0),
    ):
        answer = await ask(await furnished(), action, action.until, headers)
        status = expected if expected and not is_public else right_for(action).status_in(39)
        if action.until == 6:
            status = expected or 200
        assert answer.status_code == status, headers


@every_action
async def test_what_is_sent_and_what_is_wanted(action: PlacementRoute) -> None:
    """An Accept without JSON gets 406 if there is a body to show; another body type gets 415."""
    world = await furnished()
    answer = await ask(world, action, action.until, {"accept": "image/png"})
    assert (answer.status_code == 406) == action.shows
    if action.takes is not None:
        answer = await ask(world, action, action.until, {"content-type": "text/plain"})
        assert answer.status_code == 415
        assert "The media type text/plain is not supported, use application/json" in answer.text
        bare = await world.service.ask(
            action.method, right_for(action).path, version=f"1.{action.until}"
        )
        assert bare.status_code == 415
        assert "The media type None is not supported, use application/json" in bare.text


@every_action
async def test_no_other_method_is_meant(action: PlacementRoute) -> None:
    """Other methods get 405, a trailing slash gets 404, and override headers are ignored."""
    world = await furnished()
    path = right_for(action).path
    there = {one.method for one in ACTIONS if one.path == action.path}
    for method in ("HEAD", "OPTIONS", "PATCH"):
        answer = await world.service.ask(method, path)
        assert answer.status_code == 405
        assert set(answer.headers["allow"].split(", ")) == there
    slashed = path.partition("?")[0] + "/"
    assert (await world.service.ask(action.method, slashed)).status_code == (
        200 if slashed == "/" else 404
    )
    override = {"x-http-method-override": "DELETE", "x-http-method": "DELETE"}
    answer = await ask(world, action, action.until, override)
    assert answer.status_code == right_for(action).status_in(action.until)
