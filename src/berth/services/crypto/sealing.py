"""Sealed texts, which Berth hands out and which their holders can neither read nor modify."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV

from berth.services.crypto.base64url import raw_of, url_text_of

KEY_BYTES = 32

# The first byte of a sealed text identifies its format, so that others can be added later.
_FORM = b"\x01"
_NAME_BYTES = 4
_NONCE_BYTES = 12
_TAG_BYTES = 16
_HEAD_BYTES = len(_FORM) + _NAME_BYTES + _NONCE_BYTES
# Sealed bytes are this many bytes longer than their content.
OVERHEAD_BYTES = _HEAD_BYTES + _TAG_BYTES
_CIPHERS_MAX = 64


class Keys(Protocol):
    """Provides the sealing keys, which may change between two calls."""

    @property
    def newest_first(self) -> Sequence[bytes]:
        """One or more keys of `KEY_BYTES` random bytes; the first one seals, and any may unseal."""
        ...


class Sealer:
    """Seals with AES-256-GCM-SIV, which stays secure when a nonce is repeated.

    A sealed text names its key, so that only one key is tried.

    Args:
        keys: the keys, read at each call.
        random_bytes: returns the given number of random bytes.
    """

    def __init__(self, keys: Keys, random_bytes: Callable[[int], bytes]) -> None:
        self._keys = keys
        self._random_bytes = random_bytes
        self._ciphers: dict[bytes, tuple[bytes, AESGCMSIV]] = {}

    def seal(self, purpose: str, content: bytes) -> str:
        """Return the content as a sealed text that only `unseal` with the same purpose can read."""
        return url_text_of(self.seal_bytes(purpose, content))

    def seal_bytes(self, purpose: str, content: bytes) -> bytes:
        """Return the content as bytes that only `unseal_bytes` with the same purpose can read."""
        name, cipher = self._cipher(self._keys.newest_first[0])
        nonce = self._random_bytes(_NONCE_BYTES)
        return _FORM + name + nonce + cipher.encrypt(nonce, content, _about(name, purpose))

    def unseal(self, purpose: str, text: str) -> bytes | None:
        """Return the content, or None if it was not sealed with these keys for this purpose."""
        raw = _raw_of(text)
        return None if raw is None else self.unseal_bytes(purpose, raw)

    def is_newest(self, text: str) -> bool:
        """Return whether a sealed text names the newest key, without verifying the seal."""
        raw = _raw_of(text)
        name, _ = self._cipher(self._keys.newest_first[0])
        return raw is not None and raw.startswith(_FORM + name)

    def unseal_bytes(self, purpose: str, raw: bytes) -> bytes | None:
        """Return the content, or None if it was not sealed with these keys for this purpose."""
        if not raw.startswith(_FORM) or len(raw) < OVERHEAD_BYTES:
            return None
        name, nonce = raw[1 : 1 + _NAME_BYTES], raw[1 + _NAME_BYTES : _HEAD_BYTES]
        sealed = raw[_HEAD_BYTES:]
        cipher = self._cipher_called(name)
        if cipher is None:
            return None
        try:
            return cipher.decrypt(nonce, sealed, _about(name, purpose))
        except InvalidTag:
            return None

    def _cipher_called(self, name: bytes) -> AESGCMSIV | None:
        for key in self._keys.newest_first:
            found, cipher = self._cipher(key)
            if found == name:
                return cipher
        return None

    def _cipher(self, key: bytes) -> tuple[bytes, AESGCMSIV]:
        found = self._ciphers.get(key)
        if found is None:
            # Keys rotate, so the cache is emptied when it is full. Building a cipher again costs
            # microseconds.
            if len(self._ciphers) >= _CIPHERS_MAX:
                self._ciphers.clear()
            found = self._ciphers[key] = (_name_of(key), AESGCMSIV(key))
        return found


def _raw_of(text: str) -> bytes | None:
    try:
        raw = raw_of(text)
    except ValueError:  # includes the errors of binascii and of the encoding
        return None
    # The decoder accepts several spellings of the same bytes. Only one may be valid, or a sealed
    # text could be altered without breaking its seal.
    return raw if url_text_of(raw) == text else None


def _name_of(key: bytes) -> bytes:
    """Return the public name of a key, which does not reveal the key."""
    return hashlib.sha256(b"name of a sealing key\0" + key).digest()[:_NAME_BYTES]


def _about(name: bytes, purpose: str) -> bytes:
    """Return the associated data that is authenticated with the content."""
    return _FORM + name + purpose.encode()
