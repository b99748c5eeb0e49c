"""The files of keys of a zone: its own private ones, and the public ones of its parents.

The private file has lines `KIND KEY`, each key in base64. Of `offers` and `passwords` the first
key seals and all of them open. Of `statements` the first one signs and the second one is next, so
that children can trust it long before it is used.

The file of parents has lines `NAME KEY KEY`. Empty lines and those that start with `#` are skipped
in both.
"""

import os
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

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

OFFERS_KEPT: Final = 3
PASSWORDS_KEPT: Final = 16
STATEMENTS_KEPT: Final = 2

_KEYS_MAX: Final = 16
_PREFIX: Final = "ed25519:"
_KINDS: Final = ("offers", "passwords", "statements")
_PRIVATE_HEADING: Final = "# Private keys of this zone; who has them can read its offers and ask"
_PARENTS_HEADING: Final = (
    "# Parents of this zone, and their public keys; what they sign is believed."
)


@dataclass(frozen=True, slots=True)
class ZoneKeys:
    """The private keys of a zone: those that seal offers, those that seal passwords, newest first.

    Of those for statements the first one signs.
    """

    offers: tuple[bytes, ...] = field(repr=False)
    passwords: tuple[bytes, ...] = field(repr=False)
    statements: tuple[Ed25519PrivateKey, ...] = field(repr=False)


def create(path: Path) -> None:
    """Make a file of private keys.

    Raises:
        InvalidInputError: there is one, or it cannot be made.
    """
    if not _make(path):
        raise InvalidInputError(str(path), "is there already; rotate its keys instead")


def rotate(path: Path) -> None:
    """Put new keys into a file of private keys, and drop the oldest ones.

    Offers and passwords that were sealed before stay good for the next rotations. Statements are
    signed with what was the next key, so children need to know that one by now.

    Raises:
        InvalidInputError: the file is wrong, or cannot be written.
    """
    old = read(path)
    keys = ZoneKeys(
        offers=(os.urandom(KEY_BYTES), *old.offers)[:OFFERS_KEPT],
        passwords=(os.urandom(KEY_BYTES), *old.passwords)[:PASSWORDS_KEPT],
        statements=(*old.statements, Ed25519PrivateKey.generate())[-STATEMENTS_KEPT:],
    )
    replace_file(path, _text_of(keys))


def public_text(path: Path) -> str:
    """Return the public keys of a zone in one line, as its children take them.

    Raises:
        InvalidInputError: the file of private keys is wrong.
    """
    return " ".join(key_text(key.public_key()) for key in read(path).statements)


def key_text(key: Ed25519PublicKey) -> str:
    """Return a public key as files and command lines have it."""
    return _PREFIX + b64encode(key.public_bytes_raw()).decode()


def read(path: Path) -> ZoneKeys:
    """Read a file of private keys.

    Raises:
        InvalidInputError: naming the line, never the key.
    """
    reason = "everybody on this machine may read it, and act for this zone; chmod 600 it"
    found: dict[str, list[bytes]] = {kind: [] for kind in _KINDS}
    for where, line in read_lines(path, forbidden=OTHERS_BITS, reason=reason):
        kind, _, text = line.partition(" ")
        if kind not in found:
            raise InvalidInputError(where, f"must begin with one of {', '.join(_KINDS)}")
        found[kind].append(_bytes_of(text.strip(), where))
    for kind, keys in found.items():
        if not 1 <= len(keys) <= _KEYS_MAX:
            reason = f"must have 1 to {_KEYS_MAX} keys for {kind}, and has {len(keys)}"
            raise InvalidInputError(str(path), reason)
    return ZoneKeys(
        offers=tuple(found["offers"]),
        passwords=tuple(found["passwords"]),
        statements=tuple(map(Ed25519PrivateKey.from_private_bytes, found["statements"])),
    )


def parents(path: Path) -> dict[str, tuple[Ed25519PublicKey, ...]]:
    """Read the file of parents; nobody is trusted where there is none.

    Raises:
        InvalidInputError: naming the line.
    """
    if not path.exists():
        return {}
    reason = "everybody on this machine may write it, and be a parent; chmod 640 it"
    found: dict[str, tuple[Ed25519PublicKey, ...]] = {}
    for where, line in read_lines(path, forbidden=OTHERS_WRITE_BIT, reason=reason):
        name, *texts = line.split()
        check_zone_name(name, where)
        if name in found:
            raise InvalidInputError(where, f"names {name} again; put all its keys in one line")
        found[name] = _public_keys(texts, where)
    return found


def add_parent(path: Path, name: str, public_text: str) -> None:
    """Trust a parent; the keys that it had before are dropped.

    Args:
        path: the file; it is made when it is not there.
        name: what the parent calls itself.
        public_text: its public keys, as `public_text` gives them there.

    Raises:
        InvalidInputError: name, keys or file are wrong.
    """
    check_zone_name(name, "name")
    keys = _public_keys(public_text.split(), "public keys")
    _write_parents(path, {**parents(path), name: keys})


def remove_parent(path: Path, name: str) -> bool:
    """Trust a parent no more; tell whether it was trusted before.

    Raises:
        InvalidInputError: the file is wrong, or cannot be written.
    """
    trusted = parents(path)
    if trusted.pop(name, None) is None:
        return False
    _write_parents(path, trusted)
    return True


class ZoneKeyFile:
    """The private keys of a zone, read again when their file changes.

    Args:
        path: the file; it is made when it is not there.
        clock: tells when to look at the file again, at most once a second.
        telemetry: is told of a file that has changed.

    Raises:
        InvalidInputError: the file is wrong at the start, others may read it, or it cannot be made.
    """

    def __init__(self, path: Path, clock: Clock, telemetry: Telemetry) -> None:
        if not path.exists():
            _make(path)  # unless another process is faster
        self._file = WatchedFile(
            path,
            read,
            clock,
            on_read=lambda keys: telemetry.event("zone_keys_read", offers=len(keys.offers)),
            on_refused=lambda error: telemetry.failure("zone_keys_refused", error),
        )

    @property
    def offers(self) -> "FileKeys":
        """What seals offers."""
        return FileKeys(lambda: self._file.content.offers)

    @property
    def passwords(self) -> "FileKeys":
        """What seals passwords."""
        return FileKeys(lambda: self._file.content.passwords)

    def sign(self, data: bytes, /) -> bytes:
        """Sign with the first key for statements."""
        return self._file.content.statements[0].sign(data)


class FileKeys:
    """Keys of one kind; see the protocol `Keys`."""

    def __init__(self, keys: Callable[[], Sequence[bytes]]) -> None:
        self._keys = keys

    @property
    def newest_first(self) -> Sequence[bytes]:
        """The keys; reading them looks at the file."""
        return self._keys()


class ParentsFile:
    """The parents of a zone, read again when their file changes.

    Args:
        path: the file; without it nobody is trusted.
        clock: tells when to look at the file again, at most once a second.
        telemetry: is told of a file that has changed.

    Raises:
        InvalidInputError: the file is wrong at the start.
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
        """Return the public keys of each parent; this looks at the file."""
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
        raise InvalidInputError(where, f"must have 1 to {_KEYS_MAX} keys, and has {len(texts)}")
    for text in texts:
        if not text.startswith(_PREFIX):
            reason = f"a public key must be {_PREFIX} and {KEY_BYTES} bytes in base64"
            raise InvalidInputError(where, reason)
    raw = (_bytes_of(text.removeprefix(_PREFIX), where) for text in texts)
    return tuple(map(Ed25519PublicKey.from_public_bytes, raw))


def _bytes_of(text: str, where: str) -> bytes:
    try:
        key = b64decode(text, validate=True)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise InvalidInputError(where, f"must have keys of {KEY_BYTES} bytes in base64")
    return key
