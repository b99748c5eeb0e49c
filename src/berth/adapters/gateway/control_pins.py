"""The public keys of the control plane that a host trusts, in a file beside the host's key.

A host gets them when it is enrolled, and again in each session. Over a broker, only they prove the
control plane's identity to the host.
"""

import os
import tempfile
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from berth.domain.compute.host_identity import public_key_bytes
from berth.domain.errors import InvalidInputError

_SUFFIX: Final = ".control"
_BYTES_MAX: Final = 16 * 1024
_KEYS_MAX: Final = 16
_OTHERS_WRITE: Final = 0o022
_HEADING: Final = "# Public keys of the control plane, which this host trusts.\n"


class ControlPins:
    """The pinned keys of one host.

    Args:
        path: the file; `pins_path` returns it for a host's key.

    Raises:
        InvalidInputError: the file exists and cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.keys: tuple[bytes, ...] = _load(path) if path.exists() else ()
        """The public keys (Ed25519, 32 bytes each); none if the file does not exist."""

    def required(self) -> tuple[bytes, ...]:
        """Return the keys.

        Raises:
            InvalidInputError: there are none.
        """
        if not self.keys:
            reason = (
                f"{self._path} does not exist; run `berth agent-enroll` with the https:// address "
                "of an API that serves agents over the broker"
            )
            raise InvalidInputError("agent.key_file", reason)
        return self.keys

    def save(self, keys: Sequence[bytes]) -> None:
        """Replace the keys, in memory and in the file.

        Raises:
            InvalidInputError: a key is malformed, or the file cannot be written.
        """
        lines = "".join(f"{b64encode(key).decode()}\n" for key in keys)
        checked = _keys_of(lines, "control_keys")
        try:
            descriptor, part = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}")
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(_HEADING + lines)
                file.flush()
                os.fsync(file.fileno())
            Path(part).replace(self._path)
        except OSError as error:
            reason = f"cannot write {self._path} ({error.strerror}); choose a folder that you own"
            raise InvalidInputError("agent.key_file", reason) from error
        self.keys = checked


def pins_path(key_file: Path) -> Path:
    """Return the file of the pinned keys beside the file of a host's key."""
    return key_file.with_name(key_file.name + _SUFFIX)


def _load(path: Path) -> tuple[bytes, ...]:
    try:
        if path.stat().st_mode & _OTHERS_WRITE:
            reason = f"{path} can be changed by others; run chmod 600 {path}"
            raise InvalidInputError("agent.key_file", reason)
        text = path.read_bytes()[:_BYTES_MAX].decode("ascii", "replace")
    except OSError as error:
        reason = f"cannot read {path} ({error.strerror}); check its owner and its mode"
        raise InvalidInputError("agent.key_file", reason) from error
    return _keys_of(text, str(path))


def _keys_of(text: str, where: str) -> tuple[bytes, ...]:
    lines = [line.strip() for line in text.splitlines()]
    keys = tuple(public_key_bytes(line) for line in lines if line and not line.startswith("#"))
    if not 1 <= len(keys) <= _KEYS_MAX:
        reason = f"has {len(keys)} keys, but must have between 1 and {_KEYS_MAX}"
        raise InvalidInputError(where, reason)
    return keys
