"""Sealed offers: the terms of an offer as bytes that only the zone that made the offer can read.

Threat model. A parent keeps offers and returns them, but is another organisation. Sealing with
AES-256-GCM-SIV hides the host from the parent and makes tampering evident; the nonce-misuse
resistance of SIV covers several processes that seal with one key without a shared counter. The
terms inside bind an offer to one zone, one parent, one request and a time of expiry, and the ledger
accepts its key once, so a stolen or repeated offer is worth nothing. All blobs of an answer are
padded to the length that the parent requested, so the length discloses neither the host nor
the depth of the tree.
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
# The fields are form, kind, digest of zone, digest of audience, digest of request, select id, place
# and expiry.
_HEAD: Final = struct.Struct("!BB8s8s16s16sId")
_HOST: Final = struct.Struct("!16s8sI")
_CHILD: Final = struct.Struct("!QH")
_FORM: Final = 1
_OF_HOST: Final = 0
_OF_CHILD: Final = 1

_STEP_BYTES: Final = 64
LAYER_BYTES: Final = OVERHEAD_BYTES + _HEAD.size + _CHILD.size
"""The number of bytes that one layer of sealing adds to a child's blob."""

_encoder: Final = msgspec.json.Encoder(order="deterministic")
_asked_of: Final = attrgetter(
    *(one.name for one in fields(Request) if one.name != "instance_uuids")
)


class OfferSeals:
    """Seals and opens the offers of one zone.

    Args:
        zone: the zone's name.
        sealer: seals with the zone's keys.
    """

    def __init__(self, zone: str, sealer: Sealer) -> None:
        self._zone = _name_digest(zone)
        self._name = zone
        self._sealer = sealer

    def seal(self, terms: OfferTerms, *, blob_bytes: int) -> bytes:
        """Return terms as a sealed blob of exactly `blob_bytes` bytes.

        Raises:
            ValueError: the terms do not fit, which `child_blob_bytes` and `BLOB_BYTES_MIN`
                prevent.
        """
        content = _packed(terms)
        room = blob_bytes - OVERHEAD_BYTES
        if len(content) > room:
            raise ValueError(f"an offer of {len(content)} bytes does not fit into {room} bytes")
        return self._sealer.seal_bytes(_PURPOSE, content.ljust(room, b"\0"))

    def open(
        self, blob: bytes, *, audience: str, request_digest: bytes, now_s: float
    ) -> OfferTerms:
        """Return the terms of an offer after checking it for the given parent, request and time.

        Args:
            blob: the sealed offer.
            audience: the name of the parent that returns it.
            request_digest: the digest of the request that is built; see `request_digest`.
            now_s: Unix seconds.

        Raises:
            OfferRefusedError: the offer is unreadable, expired, or made for another zone, parent
                or request.
        """
        # The seal is authenticated, so a blob that can be unsealed was made by this zone. Plain
        # comparisons are safe then: their timing can disclose only what the sender sent.
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
    """Return the blob length that fits the nested seals of the given number of levels of zones.

    Raises:
        ValueError: `levels` is less than 1, or their seals do not fit into the largest blob.
    """
    least = BLOB_BYTES_MIN + (levels - 1) * LAYER_BYTES
    if not BLOB_BYTES_MIN <= least <= BLOB_BYTES_MAX:
        raise ValueError(
            f"{levels} levels of zones do not fit into one offer; change zones.levels_max"
        )
    # The length is rounded up so that it does not disclose the exact number of levels.
    return -(-least // _STEP_BYTES) * _STEP_BYTES


def child_blob_bytes(blob_bytes: int) -> int | None:
    """Return the blob length for children, or None if there is no room for another layer."""
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


def request_digest(request: Request) -> bytes:
    """Return a truncated SHA-256 of all fields of a request except its instances.

    A zone computes the digest when it makes offers and again when they are built, so the encoding
    does not depend on the order of mappings. The instances are left out: a build may use fewer
    offers than the select requested, and the uuids follow from the request's id.
    """
    content = _encoder.encode(_asked_of(request))
    return hashlib.sha256(b"berth request\0" + content).digest()[:DIGEST_BYTES]
