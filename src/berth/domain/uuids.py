"""The format of UUIDs, and UUIDs derived from names."""

import hashlib
import re

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_DIGITS = re.compile(r"[0-9a-f]{32}")


def is_uuid(text: str) -> bool:
    """Return whether a string is a UUID with dashes, in lower or upper case."""
    return _UUID.fullmatch(text) is not None


def canonical_uuid(text: str) -> str:
    """Return a UUID in lower case with dashes, and any other text unchanged.

    Like Nova, this accepts upper case, missing dashes, braces and the prefix `urn:uuid:`.
    """
    bare = text.lower().removeprefix("urn:uuid:").strip("{}").replace("-", "")
    if _DIGITS.fullmatch(bare) is None:
        return text
    return f"{bare[:8]}-{bare[8:12]}-{bare[12:16]}-{bare[16:20]}-{bare[20:]}"


def named_uuid(name: str) -> str:
    """Return the UUID of a name: formatted as version 5, computed with SHA-256 instead of SHA-1.

    Every process computes the same UUID for the same name.
    """
    digits = hashlib.sha256(name.encode()).hexdigest()
    # RFC 9562 requires the two highest bits of the 17th digit to be 10, hence 8, 9, a or b.
    variant = "89ab"[int(digits[16], 16) % 4]
    return f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"
