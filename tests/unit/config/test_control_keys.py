"""The keys with which the control plane proves itself to agents over a broker."""

from base64 import b64encode
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from berth.config.control_keys import ControlKeyFile, create, read, rotate
from berth.domain.errors import InvalidInputError
from tests.unit.api.cloud import FakeClock, Told

KEY = b64encode(b"k" * 32).decode()


def test_a_new_file_has_the_key_in_use_and_the_next(tmp_path: Path) -> None:
    """It is made for its owner alone, and an existing one is kept."""
    path = tmp_path / "control-keys"
    keys = ControlKeyFile(path, FakeClock(), Told())
    assert len(set(keys.public_keys())) == 2
    assert path.stat().st_mode & 0o777 == 0o600
    create(path)
    assert ControlKeyFile(path, FakeClock(), Told()).public_keys() == keys.public_keys()


def test_a_rotation_uses_the_key_that_hosts_know_already(tmp_path: Path) -> None:
    """The next key signs, within two seconds, and a new one comes after it."""
    path, clock = tmp_path / "control-keys", FakeClock()
    keys = ControlKeyFile(path, clock, Told())
    first, second = keys.public_keys()
    Ed25519PublicKey.from_public_bytes(first).verify(keys.sign(b"data"), b"data")
    rotate(path)
    clock.seconds += 2
    Ed25519PublicKey.from_public_bytes(second).verify(keys.sign(b"data"), b"data")
    assert keys.public_keys()[0] == second
    assert first not in keys.public_keys()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "has 0 keys, but must have 2"),
        (f"{KEY}\n", "has 1 keys, but must have 2"),
        (f"{KEY}\n" * 3, "has 3 keys, but must have 2"),
        (f"{KEY}\n{KEY[:-4]}\n", "line 2: a key must be 32 bytes"),
        (f"{KEY}\n*\n", "line 2: a key must be 32 bytes"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    """The error has the line number or the count, but no key."""
    path = tmp_path / "control-keys"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(InvalidInputError) as caught:
        read(path)
    assert reason in str(caught.value)
    assert KEY[:8] not in str(caught.value)


def test_a_file_that_everybody_may_read_is_refused(tmp_path: Path) -> None:
    """The error names the remedy."""
    path = tmp_path / "control-keys"
    create(path)
    path.chmod(0o644)
    with pytest.raises(InvalidInputError, match="chmod 600"):
        read(path)
