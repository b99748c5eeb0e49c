"""Identities of hosts: the keys with which their agents prove their identity."""

import base64
import binascii
from dataclasses import dataclass, replace
from typing import Final

from berth.domain.errors import InvalidInputError

KEY_BYTES: Final = 32
"""The size of an Ed25519 public key."""

KEYS_MAX: Final = 2
"""A host has one key, and a second one while its key is being rotated."""


@dataclass(frozen=True, slots=True)
class HostKey:
    """The public key of a host (Ed25519, in base64), and the Unix time at which it was added."""

    public_key: str
    added_at_s: float

    @property
    def public_bytes(self) -> bytes:
        """The 32 bytes of the key; an invalid key raises InvalidInputError."""
        return public_key_bytes(self.public_key)


@dataclass(frozen=True, slots=True)
class HostIdentity:
    """The identity of one host.

    Attributes:
        host: the name of the host; the key of the record.
        keys: the keys that are valid now, oldest first.
        token_digest: the SHA-256 digest, in hexadecimal digits, of the one-time token with which an
            agent may add the first key; empty if there is none.
        token_expires_at_s: the Unix time after which the token is invalid.
        created_at_s: the Unix time at which the host was first enrolled.
        revoked_at_s: the Unix time at which the keys were revoked; None if they are not revoked.
        rotates: whether the agent should replace its key.
    """

    host: str
    keys: tuple[HostKey, ...] = ()
    token_digest: str = ""
    token_expires_at_s: float = 0.0
    created_at_s: float = 0.0
    revoked_at_s: float | None = None
    rotates: bool = False

    def revoked(self, now_s: float) -> "HostIdentity":
        """Return the identity as revoked at `now_s` (Unix seconds), without keys and token.

        The host must be enrolled again before its agent can prove its identity.
        """
        return replace(self, keys=(), token_digest="", revoked_at_s=now_s, rotates=False)


def identity_guard(host: str) -> str:
    """Return the name of the guard on the identity of a host."""
    return f"host identity {host}"


def public_key_bytes(text: str) -> bytes:
    """Return the 32 bytes of a public key in base64.

    Raises:
        InvalidInputError: the text is not base64, or does not encode 32 bytes.
    """
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidInputError("public_key", "is not valid base64") from error
    if len(key) != KEY_BYTES:
        reason = f"has {len(key)} bytes; must be an Ed25519 public key of {KEY_BYTES} bytes"
        raise InvalidInputError("public_key", reason)
    return key


def encoded_key(public_bytes: bytes) -> str:
    """Return a public key in base64."""
    return base64.b64encode(public_bytes).decode()
