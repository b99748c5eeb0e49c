"""Tests for sealed offers."""

import random
from dataclasses import replace

import pytest

from berth.domain.zones.offer import (
    BLOB_BYTES_MAX,
    BLOB_BYTES_MIN,
    ChildTerms,
    HostTerms,
    OfferKey,
    OfferRefusalReason,
    OfferRefusedError,
    OfferTerms,
)
from berth.domain.zones.zone_orders import OFFER_BYTES
from berth.services.crypto.sealing import KEY_BYTES, Sealer
from berth.services.zoning.offers.offer_seals import (
    LAYER_BYTES,
    OfferSeals,
    blob_bytes_of,
    child_blob_bytes,
)

DIGEST = b"d" * 16
UUID = "11111111-2222-4333-8444-555555555555"
LOCAL = OfferTerms(
    key=OfferKey(b"s" * 16, 7),
    zone="north",
    audience="root",
    request_digest=DIGEST,
    ends_at_s=1000.0,
    where=HostTerms(UUID, b"schedule", 5),
)
MUTATIONS = 100_000


class FixedKeys:
    """Keys that are kept in memory."""

    def __init__(self, *keys: bytes) -> None:
        self.newest_first = keys


def seals(*keys: int, zone: str = "north") -> OfferSeals:
    """Return the seals of a zone; the first key seals."""
    chance = random.Random(1)
    made = FixedKeys(*(bytes([number]) * KEY_BYTES for number in keys or (1,)))
    return OfferSeals(zone, Sealer(made, chance.randbytes))


def opened(
    seal: OfferSeals, blob: bytes, *, audience: str = "root", now_s: float = 1.0
) -> OfferTerms:
    """Return the terms of a blob opened for the request of the tests."""
    return seal.open(blob, audience=audience, request_digest=DIGEST, now_s=now_s)


def flaw_of(
    seal: OfferSeals, blob: bytes, *, audience: str = "root", now_s: float = 1.0
) -> OfferRefusalReason:
    """Return the reason for which a blob is refused."""
    with pytest.raises(OfferRefusedError) as refused:
        opened(seal, blob, audience=audience, now_s=now_s)
    return refused.value.flaw


def test_terms_come_back() -> None:
    """The terms of a host's and of a child's offer are sealed and opened unchanged."""
    north = seals()
    assert opened(north, north.seal(LOCAL, blob_bytes=512)) == LOCAL
    nested = replace(LOCAL, where=ChildTerms(3, b"\0blob\0"))
    assert opened(north, north.seal(nested, blob_bytes=512)) == nested


@pytest.mark.parametrize("blob_bytes", [BLOB_BYTES_MIN, 512, BLOB_BYTES_MAX])
def test_every_blob_has_the_length_that_was_asked_for(blob_bytes: int) -> None:
    """Every blob has the requested length, whether it is for a host or a child."""
    north = seals()
    inner = child_blob_bytes(blob_bytes) or 8
    nested = replace(LOCAL, where=ChildTerms(3, bytes(max(8, inner))))
    assert len(north.seal(LOCAL, blob_bytes=blob_bytes)) == blob_bytes
    assert len(north.seal(nested, blob_bytes=blob_bytes)) == blob_bytes


def test_layers_end_where_no_local_offer_would_fit() -> None:
    """A child's blob must be long enough for a host's offer."""
    assert child_blob_bytes(BLOB_BYTES_MIN + LAYER_BYTES) == BLOB_BYTES_MIN
    assert child_blob_bytes(BLOB_BYTES_MIN + LAYER_BYTES - 1) is None


def test_what_does_not_fit_is_said() -> None:
    """Terms that do not fit the requested length raise ValueError."""
    with pytest.raises(ValueError, match="does not fit"):
        seals().seal(replace(LOCAL, where=ChildTerms(1, bytes(200))), blob_bytes=BLOB_BYTES_MIN)


def test_equal_terms_give_different_blobs() -> None:
    """Equal terms are sealed to different blobs."""
    north = seals()
    assert north.seal(LOCAL, blob_bytes=512) != north.seal(LOCAL, blob_bytes=512)


def test_only_for_whom_and_for_what_it_was_made() -> None:
    """An offer is refused for another parent, zone or request and after its end."""
    blob = seals().seal(LOCAL, blob_bytes=512)
    assert flaw_of(seals(), blob, audience="other") is OfferRefusalReason.OTHER_AUDIENCE
    assert flaw_of(seals(), blob, now_s=1000.0) is OfferRefusalReason.EXPIRED
    assert flaw_of(seals(zone="south"), blob) is OfferRefusalReason.OTHER_ZONE
    with pytest.raises(OfferRefusedError) as refused:
        seals().open(blob, audience="root", request_digest=b"e" * 16, now_s=1.0)
    assert refused.value.flaw is OfferRefusalReason.OTHER_REQUEST


def test_a_rotated_key_still_opens() -> None:
    """A blob can be opened until its key is dropped."""
    blob = seals(1).seal(LOCAL, blob_bytes=512)
    assert opened(seals(2, 1), blob) == LOCAL
    assert flaw_of(seals(2), blob) is OfferRefusalReason.UNREADABLE


@pytest.mark.parametrize("blob", [b"", b"\1", bytes(BLOB_BYTES_MIN), bytes(BLOB_BYTES_MAX + 1)])
def test_anything_else_is_unreadable(blob: bytes) -> None:
    """Arbitrary bytes are unreadable."""
    assert flaw_of(seals(), blob) is OfferRefusalReason.UNREADABLE


def test_no_changed_blob_is_taken() -> None:
    """None of 100,000 changed blobs can be opened."""
    north, chance = seals(), random.Random(20_261_122)
    blobs = [
        north.seal(replace(LOCAL, key=OfferKey(chance.randbytes(16), place)), blob_bytes=256)
        for place in range(8)
    ]
    known = set(blobs)
    taken = tried = 0
    while tried < MUTATIONS:
        blob = _changed(chance, blobs)
        if blob in known:
            continue
        tried += 1
        try:
            opened(north, blob)
        except OfferRefusedError:
            continue
        taken += 1
    assert (tried, taken) == (MUTATIONS, 0)


def _changed(chance: random.Random, blobs: list[bytes]) -> bytes:
    blob = bytearray(chance.choice(blobs))
    place = chance.randrange(len(blob))
    match chance.randrange(6):
        case 0:
            blob[place] ^= 1 << chance.randrange(8)
        case 1:
            for _ in range(chance.randrange(1, 9)):
                blob[chance.randrange(len(blob))] = chance.randrange(256)
        case 2:
            del blob[place:]
        case 3:
            blob += chance.randbytes(chance.randrange(1, 64))
        case 4:
            other = chance.randrange(len(blob))
            blob[place], blob[other] = blob[other], blob[place]
        case _:
            blob[place:] = chance.choice(blobs)[place:]
    return bytes(blob)


@pytest.mark.parametrize("levels", [1, 2, 4, 32])
def test_an_offer_is_as_long_as_so_many_levels_need(levels: int) -> None:
    """`blob_bytes_of` returns a length in which exactly this many levels fit."""
    left: int | None = blob_bytes_of(levels)
    assert left is not None
    assert left % 64 == 0
    for _ in range(levels - 1):
        assert left is not None
        left = child_blob_bytes(left)
    assert left is not None
    assert child_blob_bytes(left) is None
    assert blob_bytes_of(4) == OFFER_BYTES


def test_more_levels_than_fit_are_refused() -> None:
    """Too many levels, and zero levels, are refused."""
    for levels in (0, 100):
        with pytest.raises(ValueError, match="do not fit"):
            blob_bytes_of(levels)


@pytest.mark.parametrize("flaw", OfferRefusalReason)
def test_a_refusal_says_why_and_what_to_do(flaw: OfferRefusalReason) -> None:
    """The error of a refused offer has a reason of its own and a remedy."""
    text = str(OfferRefusedError(flaw))
    assert text.startswith("the offer was refused because ")
    assert text.endswith("; use the next offer, or select again")
    assert text not in {str(OfferRefusedError(one)) for one in OfferRefusalReason if one != flaw}
