"""Tests for the signed assertions of parents."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from berth.services.zoning.messages.assertions import (
    LIFE_S,
    AssertedRequest,
    AssertionVerifier,
    AssertionWriter,
    ZoneAssertion,
    ZoneAssertionError,
)

KEY, OTHER = (Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in (1, 2))
ASKED = AssertedRequest("POST", "/zones/select", b'{"request": 1}')


class World:
    """A clock and counting random bytes."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.number = 0

    def now_s(self) -> float:
        """Return the time."""
        return self.now

    def random_bytes(self, length: int) -> bytes:
        """Return different bytes at each call."""
        self.number += 1
        return self.number.to_bytes(length, "big")

    def writer(self, *, name: str = "root", key: Ed25519PrivateKey = KEY) -> AssertionWriter:
        """Return the assertion writer of a parent."""
        return AssertionWriter(name, key, self.now_s, self.random_bytes)

    def reader(self, *, zone: str = "north", **parents: Ed25519PrivateKey) -> AssertionVerifier:
        """Return the assertion verifier of a child that trusts these parents."""
        keys: Mapping[str, Sequence[Ed25519PublicKey]] = {
            name: (key.public_key(),) for name, key in (parents or {"root": KEY}).items()
        }
        return AssertionVerifier(zone, lambda: keys, self.now_s)


def written(world: World, asked: AssertedRequest = ASKED, **to: str) -> str:
    """Return an assertion of the root for the zone north."""
    return world.writer().write(to.get("zone", "north"), asked, project_id="p", user_id="u")


def refused(reader: AssertionVerifier, text: str, asked: AssertedRequest = ASKED) -> str:
    """Return the reason for which an assertion is refused."""
    with pytest.raises(ZoneAssertionError) as error:
        reader.verify(text, asked)
    return error.value.reason


def test_a_tenant_travels() -> None:
    """A valid assertion carries its parent and tenant."""
    world = World()
    found = world.reader().verify(written(world), ASKED)
    assert isinstance(found, ZoneAssertion)
    assert (found.parent, found.project_id, found.user_id) == ("root", "p", "u")


def test_nobody_else_is_believed() -> None:
    """An assertion with another key or of an untrusted parent is refused."""
    world = World()
    forged = world.writer(key=OTHER).write("north", ASKED, project_id="p", user_id="u")
    assert "signature" in refused(world.reader(), forged)
    assert "signature" in refused(world.reader(stranger=KEY), written(world))


def test_a_parent_speaks_in_its_own_name_alone() -> None:
    """A trusted parent cannot sign for another one."""
    world = World()
    text = world.writer(name="root", key=OTHER).write("north", ASKED, project_id="p", user_id="u")
    assert "signature" in refused(world.reader(root=KEY, second=OTHER), text)


@pytest.mark.parametrize(
    "asked",
    [
        AssertedRequest("GET", ASKED.path, ASKED.body),
        AssertedRequest("POST", "/zones/release", ASKED.body),
        AssertedRequest("POST", ASKED.path, b'{"request": 2}'),
        AssertedRequest("POST", ASKED.path + ASKED.body.decode(), b""),
    ],
)
def test_it_holds_for_one_request(asked: AssertedRequest) -> None:
    """An assertion holds only for its method, path and body."""
    world = World()
    assert "another request" in refused(world.reader(), written(world), asked)


def test_it_holds_for_one_zone() -> None:
    """An assertion holds only for its zone."""
    world = World()
    assert "another zone" in refused(world.reader(zone="south"), written(world))


def test_it_is_used_once() -> None:
    """An assertion can be used once, and expires."""
    world = World()
    reader, text = world.reader(), written(world)
    reader.verify(text, ASKED)
    assert "already been used" in refused(reader, text)
    world.now += LIFE_S
    assert "expired" in refused(reader, text)
    reader.verify(written(world), ASKED)


def test_clocks_have_to_agree() -> None:
    """An assertion from the future is refused."""
    world = World()
    text = written(world)
    world.now -= LIFE_S
    assert "clocks" in refused(world.reader(), text)


def test_a_changed_statement_is_refused() -> None:
    """An assertion with any changed field is refused."""
    world = World()
    content, _, signature = written(world).partition(".")
    fields = json.loads(urlsafe_b64decode(content + "=" * (-len(content) % 4)))
    for name in fields:
        changed = json.dumps(fields | {name: "other"}).encode()
        text = urlsafe_b64encode(changed).decode().rstrip("=")
        refused(world.reader(root=KEY, other=KEY), f"{text}.{signature}")


@pytest.mark.parametrize(
    "text", ["", ".", "a.b", "é.é", "e30.e30", "W10.W10", "bnVsbA.bnVsbA", "x" * 5000]
)
def test_anything_else_is_refused(text: str) -> None:
    """An arbitrary text is refused."""
    assert "form" in refused(World().reader(), text)


def test_one_that_ends_while_its_body_comes_is_refused() -> None:
    """An assertion that expires between its two checks is refused."""
    world = World()
    reader = world.reader()
    statement = reader.verify_signature(written(world))
    world.now += LIFE_S
    with pytest.raises(ZoneAssertionError, match="has expired"):
        reader.redeem(statement, ASKED)


def test_one_is_used_when_its_request_is_there() -> None:
    """An assertion is used up when it is redeemed with its request, not when it is verified."""
    world = World()
    reader = world.reader()
    text = written(world)
    first, second = reader.verify_signature(text), reader.verify_signature(text)
    with pytest.raises(ZoneAssertionError, match="another request"):
        reader.redeem(first, AssertedRequest("GET", "/zones"))
    reader.redeem(first, ASKED)
    with pytest.raises(ZoneAssertionError, match="already been used"):
        reader.redeem(second, ASKED)
