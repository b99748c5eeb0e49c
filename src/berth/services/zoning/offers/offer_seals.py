"""Seals of offers: the terms of an offer as bytes that only the zone that made it can read.

All blobs of one answer have the length that was asked for, whatever is in them: a host, or what
a child of the zone has sealed.
"""

import hashlib
import struct
from dataclasses import fields
from functools import lru_cache
from operator import attrgetter
from typing import Final
from uuid import UUID

import msgspec

from berth.domain.compute.request import Request
from berth.domain.zones.offer import (
    BLOB_BYTES_MAX,
    BLOB_BYTES_MIN,
    DIGEST_BYTES,
    ChildTerms,
    HostTerms,
    OfferKey,
    OfferRefusalReason,
    OfferRefusedError,
    OfferTerms,
)
from berth.services.crypto.sealing import OVERHEAD_BYTES, Sealer

_PURPOSE: Final = "zone offer"
_HEAD: Final = struct.Struct("!BB8s8s16s16sId")
"""Form, kind, digests of zone and audience, digest of the request, select, place, end."""
_HOST: Final = struct.Struct("!16s8sI")
_CHILD: Final = struct.Struct("!QH")
_FORM: Final = 1
_OF_HOST: Final = 0
_OF_CHILD: Final = 1

_STEP_BYTES: Final = 64
LAYER_BYTES: Final = OVERHEAD_BYTES + _HEAD.size + _CHILD.size
"""How much shorter a child's blob has to be than the one that it is sealed into."""


class OfferSeals:
    """Seals and opens the offers of one zone.

    Args:
        zone: the zone's name.
        sealer: has the zone's keys.
    """

    def __init__(self, zone: str, sealer: Sealer) -> None:
        self._zone = _name_digest(zone)
        self._name = zone
        self._sealer = sealer

    def seal(self, terms: OfferTerms, *, blob_bytes: int) -> bytes:
        """Seal terms into so many bytes.

        Raises:
            ValueError: they do not fit, which `child_blob_bytes` and `BLOB_BYTES_MIN` prevent.
        """
        content = _packed(terms)
        room = blob_bytes - OVERHEAD_BYTES
        if len(content) > room:
            raise ValueError(f"an offer of {len(content)} bytes does not fit into {room}")
        return self._sealer.seal_bytes(_PURPOSE, content.ljust(room, b"\0"))

    def open(
        self, blob: bytes, *, audience: str, request_digest: bytes, now_s: float
    ) -> OfferTerms:
        """Open an offer, for the parent and the request that it was made for, in its time.

        Raises:
            OfferRefusedError: it is not such an offer.
        """
        content = None
        if BLOB_BYTES_MIN <= len(blob) <= BLOB_BYTES_MAX:
            content = self._sealer.unseal_bytes(_PURPOSE, blob)
        if content is None:
            raise OfferRefusedError(OfferRefusalReason.UNREADABLE)
        form, kind, zone, whom, digest, select_id, place, ends_at_s = _HEAD.unpack_from(content)
        flaws = (
            (form != _FORM, OfferRefusalReason.UNREADABLE),
            (zone != self._zone, OfferRefusalReason.OTHER_ZONE),
            (whom != _name_digest(audience), OfferRefusalReason.OTHER_AUDIENCE),
            (digest != request_digest, OfferRefusalReason.OTHER_REQUEST),
            (not now_s < ends_at_s, OfferRefusalReason.EXPIRED),
        )
        for is_so, flaw in flaws:
            if is_so:
                raise OfferRefusedError(flaw)
        return OfferTerms(
            key=OfferKey(select_id, place),
            zone=self._name,
            audience=audience,
            request_digest=request_digest,
            ends_at_s=ends_at_s,
            where=_where(kind, content),
        )


def blob_bytes_of(levels: int) -> int:
    """Return how long blobs have to be that so many levels of zones seal, one in another.

    Raises:
        ValueError: no blob may be as long.
    """
    least = BLOB_BYTES_MIN + (levels - 1) * LAYER_BYTES
    if not BLOB_BYTES_MIN <= least <= BLOB_BYTES_MAX:
        raise ValueError(f"{levels} levels of zones do not fit into one offer")
    return -(-least // _STEP_BYTES) * _STEP_BYTES


def child_blob_bytes(blob_bytes: int) -> int | None:
    """Return how long blobs of children may be; None when there is no room for another layer."""
    left = blob_bytes - LAYER_BYTES
    return left if left >= BLOB_BYTES_MIN else None


def _packed(terms: OfferTerms) -> bytes:
    where = terms.where
    head = _HEAD.pack(
        _FORM,
        _OF_HOST if isinstance(where, HostTerms) else _OF_CHILD,
        _name_digest(terms.zone),
        _name_digest(terms.audience),
        terms.request_digest,
        terms.key.select_id,
        terms.key.place,
        terms.ends_at_s,
    )
    if isinstance(where, HostTerms):
        provider = bytes.fromhex(where.provider_uuid.replace("-", ""))
        return head + _HOST.pack(provider, where.scheduler, where.place)
    return head + _CHILD.pack(where.zone_id, len(where.blob)) + where.blob


def _where(kind: int, content: bytes) -> HostTerms | ChildTerms:
    if kind == _OF_HOST:
        provider, scheduler, place = _HOST.unpack_from(content, _HEAD.size)
        return HostTerms(str(UUID(bytes=provider)), scheduler, place)
    zone_id, length = _CHILD.unpack_from(content, _HEAD.size)
    begin = _HEAD.size + _CHILD.size
    return ChildTerms(zone_id, content[begin : begin + length])


@lru_cache(maxsize=1_024)
def _name_digest(name: str) -> bytes:
    return hashlib.sha256(b"zone name\0" + name.encode()).digest()[:8]


_encoder: Final = msgspec.json.Encoder(order="deterministic")


_asked_of: Final = attrgetter(
    *(one.name for one in fields(Request) if one.name != "instance_uuids")
)


def request_digest(request: Request) -> bytes:
    """Return the first bytes of a SHA-256 of all that was asked.

    A zone computes it when it makes offers and when they are to be built, so it is taken of a text
    that does not depend on the order of mappings. How many instances there are is not part of
    it: offers of one select may be used by fewer, and their uuids follow from the request's id.
    """
    content = _encoder.encode(_asked_of(request))
    return hashlib.sha256(b"berth request\0" + content).digest()[:DIGEST_BYTES]
