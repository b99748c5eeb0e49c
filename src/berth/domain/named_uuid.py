"""Uuids that a name decides, so that whoever names a thing again means the same one."""

import hashlib


def named_uuid(name: str) -> str:
    """Return the uuid of a name: of the form of a name-based one (version 5), from a SHA-256."""
    digits = hashlib.sha256(name.encode()).hexdigest()
    variant = "89ab"[int(digits[16], 16) % 4]
    return f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"
