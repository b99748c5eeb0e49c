"""Digests of requests: what an offer was made for, in a few bytes."""

import hashlib
from dataclasses import fields
from operator import attrgetter
from typing import Final

import msgspec

from berth.domain.compute.request import Request
from berth.domain.zones.offer import DIGEST_BYTES

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
