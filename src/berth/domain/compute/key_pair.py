"""Key pairs of users: public keys that servers are created with."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

PAIRS_MAX: Final = 1_000
"""Maximum number of key pairs of one user, regardless of the quota."""


class KeyType(StrEnum):
    """The format of a public key: an OpenSSH key, or a certificate in PEM."""

    SSH = "ssh"
    X509 = "x509"


@dataclass(frozen=True, slots=True)
class KeyPair:
    """The public half of a key pair; the private half is never stored.

    The fingerprint is the MD5 digest of an SSH key or the SHA-1 digest of a certificate, as pairs
    of hexadecimal digits, which is the form of Nova.
    """

    name: str
    type: KeyType
    public_key: str
    fingerprint: str
    created_at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class KeyRing:
    """All key pairs of one user, ordered by name; names are unique within the ring.

    They share a record because they are listed, counted and named together.
    """

    user_id: str
    key_pairs: tuple[KeyPair, ...] = ()

    def find(self, name: str) -> KeyPair | None:
        """Return the key pair with the given name, or None if the user has none."""
        return next((pair for pair in self.key_pairs if pair.name == name), None)

    def with_pair(self, pair: KeyPair) -> "KeyRing":
        """Return the ring with one more key pair, whose name must be new."""
        pairs = sorted((*self.key_pairs, pair), key=lambda one: one.name)
        return replace(self, key_pairs=tuple(pairs))

    def without(self, name: str) -> "KeyRing":
        """Return the ring without the key pair of the given name."""
        return replace(self, key_pairs=tuple(one for one in self.key_pairs if one.name != name))
