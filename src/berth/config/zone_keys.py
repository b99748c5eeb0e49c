"""The key files of a zone: its own private keys, and the public keys of its parents.

The private file has lines `KIND KEY`, with each key in base64. The first key of the kind `offers`
or `passwords` seals, and all keys of that kind open what one of them has sealed. The first key of
the kind `statements` signs assertions; the second one will be used after the next rotation, so
children can trust it in advance.

The file of parents has lines `NAME KEY KEY`. In both files empty lines and lines that start with
`#` are skipped.
"""

import os
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from berth.config.key_lines import decode_key
from berth.config.watched_files import (
    OTHERS_BITS,
    OTHERS_WRITE_BIT,
    WatchedFile,
    create_file,
    read_lines,
    replace_file,
)
from berth.domain.errors import InvalidInputError
from berth.domain.zones.zone import check_zone_name
from berth.ports.clock import Clock
from berth.ports.telemetry import Telemetry
from berth.services.crypto.sealing import KEY_BYTES

# Numbers of keys that a rotation keeps. Offers live for a minute by default, so three keys suffice
# for two rotations in a row. Passwords in the ledger stay sealed with an older key until a
# scheduler seals them with the newest one, which can take long if no scheduler is running.
OFFERS_KEPT: Final = 3
PASSWORDS_KEPT: Final = 16
# The key in use and the next one.
STATEMENTS_KEPT: Final = 2

_KEYS_MAX: Final = 16
_PREFIX: Final = "ed25519:"
_KINDS: Final = ("offers", "passwords", "statements")
_PRIVATE_HEADING: Final = "# Private keys of this zone. Anyone who has them can act for it."
_PARENTS_HEADING: Final = (
    "# Parents of this zone, and their public keys. This zone trusts what they sign."
)


@dataclass(frozen=True, slots=True)
class ZoneKeys:
    """The private keys of a zone.

    Attributes:
        offers: keys that seal offers, newest first.
        passwords: keys that seal the passwords of accounts at children, newest first.
        statements: keys that sign assertions: first the one in use, then the next one.
    """

    offers: tuple[bytes, ...] = field(repr=False)
    passwords: tuple[bytes, ...] = field(repr=False)
    statements: tuple[Ed25519PrivateKey, ...] = field(repr=False)


def create(path: Path) -> None:
    """Create a file of private keys.

    Raises:
        InvalidInputError: the file exists or cannot be created.
    """
    if not _make(path):
        raise InvalidInputError(
            str(path),
            "already exists; to add new keys and drop the oldest, use `berth zone keys rotate`",
        )


def rotate(path: Path) -> None:
    """Add new keys to a file of private keys, and drop the oldest ones.

    Offers and passwords stay readable until a rotation drops their key. The former next key now
    signs assertions, so children must already trust it.

    Raises:
        InvalidInputError: the file is invalid or cannot be written.
    """
    old = read(path)
    keys = ZoneKeys(
        offers=(os.urandom(KEY_BYTES), *old.offers)[:OFFERS_KEPT],
        passwords=(os.urandom(KEY_BYTES), *old.passwords)[:PASSWORDS_KEPT],
        statements=(*old.statements, Ed25519PrivateKey.generate())[-STATEMENTS_KEPT:],
    )
    replace_file(path, _text_of(keys))


def public_text(path: Path) -> str:
    """Return the public keys of a zone in one line, in the form that its children accept.

    Raises:
        InvalidInputError: the file of private keys cannot be read or is invalid.
    """
    return " ".join(key_text(key.public_key()) for key in read(path).statements)


def key_text(key: Ed25519PublicKey) -> str:
    """Return a public key in the form that files and command lines use."""
    return _PREFIX + b64encode(key.public_bytes_raw()).decode()


def read(path: Path) -> ZoneKeys:
    """Return the keys in a file of private keys.

    Raises:
        InvalidInputError: the file cannot be read, or its mode or content is invalid; the message
            never quotes a key.
    """
    reason = "every user of this machine can read it and act for this zone; run chmod 600 on it"
    found: dict[str, list[bytes]] = {kind: [] for kind in _KINDS}
    for where, line in read_lines(path, forbidden=OTHERS_BITS, reason=reason):
        kind, _, text = line.partition(" ")
        if kind not in found:
            raise InvalidInputError(where, f"must begin with one of {', '.join(_KINDS)}")
        found[kind].append(decode_key(text.strip(), where))
    for kind, keys in found.items():
        if not 1 <= len(keys) <= _KEYS_MAX:
            reason = f"has {len(keys)} keys for {kind}, but must have between 1 and {_KEYS_MAX}"
            raise InvalidInputError(str(path), reason)
    return ZoneKeys(
        offers=tuple(found["offers"]),
        passwords=tuple(found["passwords"]),
        statements=tuple(map(Ed25519PrivateKey.from_private_bytes, found["statements"])),
    )


def parents(path: Path) -> dict[str, tuple[Ed25519PublicKey, ...]]:
    """Return the public keys of each parent in a file; a missing file trusts no parent.

    Raises:
        InvalidInputError: the file cannot be read, a line is invalid, or all users may write the
            file.
    """
    if not path.exists():
        return {}
    reason = "every user of this machine can write it and add a parent; run chmod 640 on it"
    found: dict[str, tuple[Ed25519PublicKey, ...]] = {}
    for where, line in read_lines(path, forbidden=OTHERS_WRITE_BIT, reason=reason):
        name, *texts = line.split()
        check_zone_name(name, where)
        if name in found:
            raise InvalidInputError(where, f"repeats {name}; put all its keys on one line")
        found[name] = _public_keys(texts, where)
    return found


def add_parent(path: Path, name: str, public_text: str) -> None:
    """Trust a parent with the given keys, which replace its earlier ones.

    Args:
        path: the file of parents; a missing one is created.
        name: the name that the parent uses for itself.
        public_text: the public keys of the parent, in the form that `public_text` returns.

    Raises:
        InvalidInputError: the name, a key or the file is invalid, or the file cannot be written.
    """
    check_zone_name(name, "name")
    keys = _public_keys(public_text.split(), "public keys")
    _write_parents(path, {**parents(path), name: keys})


def remove_parent(path: Path, name: str) -> bool:
    """Stop trusting a parent, and return whether it was trusted before.

    Raises:
        InvalidInputError: the file is invalid or cannot be written.
    """
    trusted = parents(path)
    if trusted.pop(name, None) is None:
        return False
    _write_parents(path, trusted)
    return True


class ZoneKeyFile:
    """The private keys in a zone's file, which is read again when it changes.

    Args:
        path: the file; a missing one is created.
        clock: the monotonic clock; the file's status is checked at most once a second.
        telemetry: receives events of changes and failures.

    Raises:
        InvalidInputError: the file cannot be created or read, or its mode or content is invalid.
    """

    def __init__(self, path: Path, clock: Clock, telemetry: Telemetry) -> None:
        if not path.exists():
            _make(path)  # False if another process has just created the file, which is fine
        self._file = WatchedFile(
            path,
            read,
            clock,
            on_read=lambda keys: telemetry.event("zone_keys_read", offers=len(keys.offers)),
            on_refused=lambda error: telemetry.failure("zone_keys_refused", error),
        )

    @property
    def offers(self) -> "FileKeys":
        """The keys that seal offers."""
        return FileKeys(lambda: self._file.content.offers)

    @property
    def passwords(self) -> "FileKeys":
        """The keys that seal passwords."""
        return FileKeys(lambda: self._file.content.passwords)

    def sign(self, data: bytes, /) -> bytes:
        """Return the signature of `data` by the key in use for assertions."""
        return self._file.content.statements[0].sign(data)


class FileKeys:
    """The keys of one kind in a file; implements the protocol `Keys`.

    Args:
        keys: returns the keys, newest first.
    """

    def __init__(self, keys: Callable[[], Sequence[bytes]]) -> None:
        self._keys = keys

    @property
    def newest_first(self) -> Sequence[bytes]:
        """The keys; reading them checks the file for changes."""
        return self._keys()


class ParentsFile:
    """The parents in a zone's file, which is read again when it changes.

    Args:
        path: the file; a missing one trusts no parent.
        clock: the monotonic clock; the file's status is checked at most once a second.
        telemetry: receives events of changes and failures.

    Raises:
        InvalidInputError: the file cannot be read at the start, or its mode or content is invalid.
    """

    def __init__(self, path: Path, clock: Clock, telemetry: Telemetry) -> None:
        self._file = WatchedFile(
            path,
            parents,
            clock,
            on_read=lambda found: telemetry.event("zone_parents_read", parents=len(found)),
            on_refused=lambda error: telemetry.failure("zone_parents_refused", error),
        )

    def trusted(self) -> Mapping[str, Sequence[Ed25519PublicKey]]:
        """Return the public keys of each parent by name; this checks the file for changes."""
        return self._file.content


def _make(path: Path) -> bool:
    keys = ZoneKeys(
        offers=(os.urandom(KEY_BYTES),),
        passwords=(os.urandom(KEY_BYTES),),
        statements=tuple(Ed25519PrivateKey.generate() for _ in range(STATEMENTS_KEPT)),
    )
    return create_file(path, _text_of(keys))


def _text_of(keys: ZoneKeys) -> str:
    raw = {
        "offers": keys.offers,
        "passwords": keys.passwords,
        "statements": tuple(key.private_bytes_raw() for key in keys.statements),
    }
    lines = [f"{kind} {b64encode(one).decode()}" for kind, some in raw.items() for one in some]
    return "\n".join([_PRIVATE_HEADING, *lines, ""])


def _write_parents(path: Path, trusted: Mapping[str, Sequence[Ed25519PublicKey]]) -> None:
    lines = [" ".join([name, *map(key_text, keys)]) for name, keys in sorted(trusted.items())]
    replace_file(path, "\n".join([_PARENTS_HEADING, *lines, ""]))


def _public_keys(texts: Sequence[str], where: str) -> tuple[Ed25519PublicKey, ...]:
    if not 1 <= len(texts) <= _KEYS_MAX:
        raise InvalidInputError(
            where, f"has {len(texts)} keys, but must have between 1 and {_KEYS_MAX}"
        )
    for text in texts:
        if not text.startswith(_PREFIX):
            reason = f"a public key must be {_PREFIX} followed by {KEY_BYTES} bytes in base64"
            raise InvalidInputError(where, reason)
    raw = (decode_key(text.removeprefix(_PREFIX), where) for text in texts)
    return tuple(map(Ed25519PublicKey.from_public_bytes, raw))
