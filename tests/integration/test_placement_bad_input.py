"""Bad input to the Placement API gets an error in its own form and changes nothing."""

import json
from typing import Final

import pytest

from berth.api.placement.routes import ACTIONS
from tests.integration.placement_nouns import dump, failures, furnish, known
from tests.integration.placement_refusals import REFUSED
from tests.unit.api.placement.world import World

_BAD: Final = 400
_FAILED: Final = 500


@pytest.fixture
async def world() -> World:
    """Return a service with a record of each kind."""
    world = World()
    await furnish(world)
    return world


WRITES = [(one.method, one.path, one.since, one.until) for one in ACTIONS if one.takes]
NO_JSON: Final = {
    "nothing": b"",
    "half an object": b'{"name": "a"',
    "two values": b"{} {}",
    "no quotes": b"{name: 1}",
    "not UTF-8": b'{"name": "\xff"}',
    "half a character": b'{"name": "\\ud800"}',
    "U+0000": b'{"name": "a\\u0000b"}',
    "no number": b'{"total": NaN}',
    "a number without end": b'{"total": 1' + b"0" * 5000 + b"}",
    "a float without end": b'{"allocation_ratio": 1e999}',
    "a list": b"[1, 2]",
    "a text": b'"a"',
    "null": b"null",
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    "many keys": json.dumps({str(number): number for number in range(20_000)}).encode(),
    "large": b'{"name": "' + b"a" * (64 << 20) + b'"}',
}


def path_of(template: str) -> str:
    """Return a path in which each parameter names an existing record."""
    for part in template.split("{")[1:]:
        name = part.partition("}")[0]
        template = template.replace(f"{{{name}}}", known(name))
    return template


@pytest.mark.parametrize("body", NO_JSON.values(), ids=NO_JSON.keys())
@pytest.mark.parametrize(("method", "path", "since", "until"), WRITES)
async def test_bodies_that_nobody_can_mean(
    world: World, method: str, path: str, since: int, until: int, body: bytes
) -> None:
    """An invalid body gets a 4xx in this API's form, and changes nothing."""
    before = await dump(world)
    headers = {"content-type": "application/json"}
    for minor in (since, until):
        answer = await world.service.ask(
            method, path_of(path), version=f"1.{minor}", content=body, headers=headers
        )
        assert _BAD <= answer.status_code < _FAILED, (minor, answer.text)
        (error,) = answer.json()["errors"]
        assert error["status"] == answer.status_code
        assert len(answer.content) < len(body) + 20_000
    assert await dump(world) == before
    assert failures(world) == []


@pytest.mark.parametrize(("method", "path", "body", "status"), REFUSED.values(), ids=REFUSED.keys())
async def test_what_is_refused_changes_nothing(
    world: World, method: str, path: str, body: object, status: int
) -> None:
    """A refused request changes no record and no version."""
    before = await dump(world)
    answer = await world.ask(method, path, body)
    assert answer.status_code == status, answer.text
    assert await dump(world) == before
    assert failures(world) == []
