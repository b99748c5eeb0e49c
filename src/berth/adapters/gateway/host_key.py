"""The key of a host, in a file that only its agent can read."""

import os
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from berth.domain.compute.host_identity import encoded_key
from berth.domain.errors import InvalidInputError

_SECRET: Final = 0o600
_OTHERS: Final = 0o077
_NEXT: Final = ".next"
_ENROLLING: Final = ".enrolling"
_ENROLL: Final = "run `berth agent-enroll` on this host"


class HostKeyFile:
    """A private key in a file; during a rotation, its successor is in another file next to it.

    Args:
        path: the file, in PEM (PKCS 8).

    Raises:
        InvalidInputError: the file has no usable key.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._key = _load(path)

    @classmethod
    def create(cls, path: Path) -> "HostKeyFile":
        """Create a key in a file, or return the key that an earlier attempt left there.

        Raises:
            InvalidInputError: the file exists and has no usable key, or cannot be written.
        """
        if not path.exists():
            _save(path, Ed25519PrivateKey.generate())
        return cls(path)

    @classmethod
    def enrolling(cls, path: Path) -> "HostKeyFile":
        """Create a new key next to a key file; the caller must then call `replace` or `discard`.

        A key that is already in the file is never enrolled again, because it may have been revoked.

        Raises:
            InvalidInputError: the file cannot be written.
        """
        part = path.with_name(path.name + _ENROLLING)
        try:
            part.unlink(missing_ok=True)  # the key of an attempt whose outcome is unknown
        except OSError as error:
            reason = f"cannot replace {part} ({error.strerror}); choose a folder that you own"
            raise InvalidInputError("agent.key_file", reason) from error
        return cls.create(part)

    def replace(self, path: Path) -> None:
        """Move the key to a file; the key in that file and its successor are deleted.

        Raises:
            InvalidInputError: the files cannot be written.
        """
        try:
            self._path.replace(path)
            path.with_name(path.name + _NEXT).unlink(missing_ok=True)
        except OSError as error:
            reason = f"cannot move {self._path} to {path} ({error.strerror}); move it yourself"
            raise InvalidInputError("agent.key_file", reason) from error
        self._path = path

    def discard(self) -> None:
        """Delete the key."""
        self._path.unlink(missing_ok=True)

    @property
    def public_key(self) -> str:
        """The public half, in base64."""
        return encoded_key(self._key.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message."""
        return self._key.sign(message)

    def prepare(self) -> str:
        """Create the next key in a separate file, and return its public half in base64.

        A key that an interrupted rotation left is used again: the control plane may know it.

        Raises:
            InvalidInputError: the file cannot be written, or has no usable key.
        """
        path = self._path.with_name(self._path.name + _NEXT)
        return type(self).create(path).public_key

    def adopt(self) -> None:
        """Replace the key with the next one.

        Raises:
            InvalidInputError: there is no usable next key.
            OSError: the file cannot be renamed.
        """
        path = self._path.with_name(self._path.name + _NEXT)
        key = _load(path)
        path.replace(self._path)
        self._key = key


def _load(path: Path) -> Ed25519PrivateKey:
    try:
        if path.stat().st_mode & _OTHERS:
            reason = f"{path} can be read by others; run chmod 600 {path}"
            raise InvalidInputError("agent.key_file", reason)
        key = load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        reason = f"cannot read {path} ({error.strerror}); {_ENROLL}"
        raise InvalidInputError("agent.key_file", reason) from error
    except (ValueError, TypeError) as error:
        reason = f"{path} is not a private key in PEM; {_ENROLL}"
        raise InvalidInputError("agent.key_file", reason) from error
    if not isinstance(key, Ed25519PrivateKey):
        reason = f"the key in {path} is not an Ed25519 key; {_ENROLL}"
        raise InvalidInputError("agent.key_file", reason)
    return key


def _save(path: Path, key: Ed25519PrivateKey) -> None:
    """Write a key so that the file is complete or does not exist, and only its owner can read it.

    Raises:
        InvalidInputError: the file cannot be written.
    """
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _SECRET)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        reason = f"cannot write {path} ({error.strerror}); choose a folder that the agent owns"
        raise InvalidInputError("agent.key_file", reason) from error
