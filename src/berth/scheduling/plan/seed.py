"""Seeds: every random choice of a decision comes from one number that is kept with it."""

import hashlib


def seed_of(request_id: str) -> int:
    """Derive the seed of a request's decision: 63 bits of the SHA-256 of its id."""
    digest = hashlib.sha256(request_id.encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
