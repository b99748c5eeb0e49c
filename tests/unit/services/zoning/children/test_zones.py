"""Tests for the records of child zones."""

from collections.abc import Sequence

import pytest

from berth.domain.errors import ConflictError, InvalidInputError, NotFoundError
from berth.domain.zones.zone import Zone
from berth.services.crypto.sealing import KEY_BYTES, Sealer
from berth.services.zoning.children.zones import URL_MAX, NewZone, ZoneChange, Zones
from tests.unit.services.wiring import TappedLedger


class FixedKeys:
    """Keys that are kept in memory."""

    def __init__(self, *names: bytes) -> None:
        self.newest_first: Sequence[bytes] = [name * KEY_BYTES for name in names or (b"k",)]


def zones() -> Zones:
    """Return the child zones of an empty ledger."""
    return Zones(TappedLedger(), Sealer(FixedKeys(), lambda length: b"n" * length), "root")


async def test_a_child_is_kept() -> None:
    """A child is stored with a sealed password."""
    mine = zones()
    zone = await mine.create(NewZone("west", "https://west:8774/", "parent", "secret"))
    assert await mine.all() == [zone]
    assert (zone.api_url, zone.username) == ("https://west:8774", "parent")
    assert "secret" not in repr(zone)
    assert mine.password(zone) == "secret"


async def test_a_password_belongs_to_one_zone() -> None:
    """A sealed password cannot be used in the record of another zone."""
    mine = zones()
    west = await mine.create(NewZone("west", "http://west", "parent", "secret"))
    east = await mine.create(NewZone("east", "http://east"))
    stolen = Zone(east.zone_id, "east", "http://mallory", sealed_password=west.sealed_password)
    assert mine.password(stolen) == mine.password(east) == ""


async def test_a_child_is_changed_and_forgotten() -> None:
    """Changing a child keeps unnamed fields, and a deleted child is not found."""
    mine = zones()
    zone = await mine.create(NewZone("west", "http://west", "parent", "secret"))
    change = ZoneChange(weight_offset=2.0, is_enabled=False, password="other")
    changed = await mine.change(zone.zone_id, change)
    assert (changed.weight_offset, changed.weight_scale, changed.is_enabled) == (2.0, 1.0, False)
    assert mine.password(changed) == "other"
    await mine.delete(zone.zone_id)
    with pytest.raises(NotFoundError):
        await mine.get(zone.zone_id)


async def test_a_child_that_is_added_again_has_its_number() -> None:
    """A child that is added again gets its former id and no former password."""
    mine = zones()
    west = await mine.create(NewZone("west", "http://west", "parent", "secret"))
    await mine.delete(west.zone_id)
    assert await mine.all() == []
    for refused in (mine.delete(west.zone_id), mine.change(west.zone_id, ZoneChange())):
        with pytest.raises(NotFoundError):
            await refused
    east = await mine.create(NewZone("east", "http://east"))
    again = await mine.create(NewZone("west", "http://west.new", weight_scale=2.0))
    assert again == Zone(west.zone_id, "west", "http://west.new", weight_scale=2.0)
    assert mine.password(again) == ""
    assert await mine.all() == [again, east]
    with pytest.raises(ConflictError):
        await mine.create(NewZone("west", "http://west"))


async def test_passwords_outlive_the_keys_that_sealed_them() -> None:
    """Resealing passwords keeps them readable after a key rotation."""
    ledger, keys = TappedLedger(), FixedKeys(b"k")
    mine = Zones(ledger, Sealer(keys, lambda length: b"n" * length), "root")
    west = await mine.create(NewZone("west", "http://west", "parent", "secret"))
    await mine.create(NewZone("east", "http://east"))
    keys.newest_first = FixedKeys(b"m", b"k").newest_first
    assert await mine.reseal() == 1
    commits = ledger.commits
    assert await mine.reseal() == 0
    assert ledger.commits == commits
    keys.newest_first = FixedKeys(b"m").newest_first
    assert mine.password(west) == ""
    assert mine.password(await mine.get(west.zone_id)) == "secret"
    keys.newest_first = FixedKeys(b"x").newest_first
    assert await mine.reseal() == 0


async def test_names_are_unique() -> None:
    """The name of a child must be unique."""
    mine = zones()
    await mine.create(NewZone("west", "http://west"))
    with pytest.raises(ConflictError):
        await mine.create(NewZone("west", "http://elsewhere"))


@pytest.mark.parametrize(
    "new",
    [
        NewZone("", "http://west"),
        NewZone("West", "http://west"),
        NewZone("w" * 65, "http://west"),
        NewZone("root", "http://west"),
        NewZone("west", "west:8774"),
        NewZone("west", "ftp://west"),
        NewZone("west", "http://"),
        NewZone("west", "http://west:port"),
        NewZone("west", "http://user:word@west"),
        NewZone("west", "http://@west"),
        NewZone("west", "http://:@west"),
        NewZone("west", "http://west:0"),
        NewZone("west", "http://we..st"),
        NewZone("west", "http://.west"),
        NewZone("west", "http://west", username="a:b"),
        NewZone("west", "http://west", username="a\nb"),
        NewZone("west", "http://west?x=1"),
        NewZone("west", "http://we\nst"),
        NewZone("west", "http://west\r\nx: y"),
        NewZone("west", "http://west/a b"),
        NewZone("west", "http://west\\@east"),
        NewZone("west", "http://w\u00e4st"),
        NewZone("west", "http://west%0d%0ax"),
        NewZone("west", "http://west/%0D%0Ax"),
        NewZone("west", "http://west/%2e%2e/zones"),
        NewZone("west", "http://west/.."),
        NewZone("west", "http://west/./a"),
        NewZone("west", "http://west/..;/zones"),
        NewZone("west", "http://west//zones"),
        NewZone("west", "http://west", password="p" * 2000),
        NewZone("west", "http://west", weight_scale=0.0),
        NewZone("west", "http://west", weight_scale=float("nan")),
        NewZone("west", "http://west", weight_offset=float("inf")),
    ],
)
async def test_what_is_wrong_is_named(new: NewZone) -> None:
    """An invalid child is refused and not stored."""
    mine = zones()
    with pytest.raises(InvalidInputError):
        await mine.create(new)
    assert await mine.all() == []


@pytest.mark.parametrize(
    "url",
    [
        "http://west/",
        "https://w-1.example:8774/a/b.c/~d",
        "http://[::1]:8774",
        "http://10.0.0.1/..a",
        "http://West_1.example.:1",
    ],
)
async def test_addresses_that_there_are(url: str) -> None:
    """Valid URLs are accepted, and later changes are checked, too."""
    mine = zones()
    zone = await mine.create(NewZone("west", url))
    assert zone.api_url == url.rstrip("/")
    assert await mine.change(zone.zone_id, ZoneChange(api_url=url)) == zone
    with pytest.raises(InvalidInputError):
        await mine.change(zone.zone_id, ZoneChange(username="a:b"))
    with pytest.raises(InvalidInputError):
        await mine.change(zone.zone_id, ZoneChange(api_url=f"{url}/%0a"))


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://west/" + "a" * URL_MAX, "at most 2048 are allowed"),
        ("ftp://west", "must have the form"),
        ("http://we..st", "the host must be"),
        ("http://west:0", "the port must not be 0"),
    ],
)
async def test_the_error_about_a_url_names_the_rule(url: str, reason: str) -> None:
    """The error about a URL names the length, the form, the host or the port."""
    with pytest.raises(InvalidInputError, match=reason):
        await zones().create(NewZone("west", url))
