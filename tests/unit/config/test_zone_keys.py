"""The files of a zone's keys and of its parents' keys."""

import os
from base64 import b64encode
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from berth.config.zone_keys import (
    OFFERS_KEPT,
    PASSWORDS_KEPT,
    ParentsFile,
    ZoneKeyFile,
    add_parent,
    create,
    key_text,
    parents,
    public_text,
    read,
    remove_parent,
    rotate,
)
from berth.domain.errors import InvalidInputError
from berth.services.crypto.sealing import KEY_BYTES, Sealer
from berth.services.zoning.messages.assertions import (
    AssertedRequest,
    AssertionVerifier,
    AssertionWriter,
)
from tests.unit.api.cloud import NOW_S, FakeClock, Told

KEY = b64encode(b"k" * KEY_BYTES).decode()
WHOLE = f"offers {KEY}\npasswords {KEY}\nstatements {KEY}\n"


def is_by(key: Ed25519PublicKey, signature: bytes, data: bytes) -> bool:
    """Return whether a key has signed the data."""
    try:
        key.verify(signature, data)
    except InvalidSignature:
        return False
    return True


def test_a_file_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    """The file is created once with four different keys, which the repr hides."""
    path = tmp_path / "zone-keys"
    create(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]
    keys = read(path)
    signing = [key.private_bytes_raw() for key in keys.statements]
    raw = [*keys.offers, *keys.passwords, *signing]
    assert len(raw) == len(set(raw)) == 4
    assert repr(keys) == "ZoneKeys()"
    with pytest.raises(InvalidInputError, match="already exists"):
        create(path)
    assert read(path).offers == keys.offers


def test_what_was_sealed_before_a_rotation_stays_good(tmp_path: Path) -> None:
    """Offers can be unsealed for the number of rotations that is kept, and passwords for more."""
    path, clock = tmp_path / "zone-keys", FakeClock()
    file = ZoneKeyFile(path, clock, Told())
    offers, passwords = Sealer(file.offers, os.urandom), Sealer(file.passwords, os.urandom)
    offer, password = offers.seal("offer", b"o"), passwords.seal("password", b"p")
    opened: list[tuple[bytes | None, bytes | None]] = []
    for _ in range(PASSWORDS_KEPT):
        rotate(path)
        clock.seconds += 1
        opened.append((offers.unseal("offer", offer), passwords.unseal("password", password)))
    assert opened == [
        (b"o" if count < OFFERS_KEPT else None, b"p" if count < PASSWORDS_KEPT else None)
        for count in range(1, PASSWORDS_KEPT + 1)
    ]


def test_children_know_the_next_key_before_it_signs(tmp_path: Path) -> None:
    """A rotation causes no refused assertion if the child gets the public keys in between."""
    keys, trusted, clock = tmp_path / "zone-keys", tmp_path / "zone-parents", FakeClock()
    file = ZoneKeyFile(keys, clock, Told())
    add_parent(trusted, "root", public_text(keys))
    parents_file = ParentsFile(trusted, clock, Told())
    writer = AssertionWriter("root", file, clock.now_s, os.urandom)
    reader = AssertionVerifier("west", parents_file.trusted, clock.now_s)
    asked = AssertedRequest("GET", "/zones/info")
    for _ in range(3):
        clock.seconds += 1
        text = writer.write("west", asked, project_id="p", user_id="u")
        assert reader.verify(text, asked).parent == "root"
        rotate(keys)
        clock.seconds += 1
        text = writer.write("west", asked, project_id="p", user_id="u")
        assert reader.verify(text, asked).parent == "root"
        add_parent(trusted, "root", public_text(keys))


def test_a_rotation_ends_the_oldest_key_for_statements(tmp_path: Path) -> None:
    """The second key becomes the first, and a new one follows it."""
    path, clock = tmp_path / "zone-keys", FakeClock()
    file = ZoneKeyFile(path, clock, Told())
    first, second = (key.public_key() for key in read(path).statements)
    assert is_by(first, file.sign(b"x"), b"x")
    rotate(path)
    clock.seconds += 1
    assert is_by(second, file.sign(b"x"), b"x")
    assert not is_by(first, file.sign(b"x"), b"x")
    assert public_text(path).split()[0] == key_text(second)


def test_a_changed_file_that_is_wrong_changes_nothing(tmp_path: Path) -> None:
    """An invalid file leaves the keys in force; the failure and the next change are reported."""
    path, clock, told = tmp_path / "zone-keys", FakeClock(), Told()
    file = ZoneKeyFile(path, clock, told)
    before, text = file.offers.newest_first, path.read_text()
    path.write_text("offers nonsense\n")
    clock.seconds += 1
    assert file.offers.newest_first == before
    path.write_text(text + f"offers {KEY}\n")
    clock.seconds += 1
    assert file.offers.newest_first == (*before, b"k" * KEY_BYTES)
    assert [name for name, *_ in told.failures] == ["zone_keys_refused"]
    assert told.events == ["zone_keys_read"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "has 0 keys for offers, but must have between 1 and 16"),
        (WHOLE + f"offers {KEY}\n" * 16, "has 17 keys for offers, but must have between 1 and 16"),
        (WHOLE.replace("statements", "# statements"), "has 0 keys for statements"),
        (f"# one\n\n{WHOLE}tokens {KEY}\n", "line 6: must begin with one of offers, passwords"),
        (f"offers {KEY[:-4]}\n", "line 1: a key must be 32 bytes"),
        ("offers\n", "line 1: a key must be 32 bytes"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    """The error has the line number or the count, but no key."""
    path = tmp_path / "zone-keys"
    path.touch(0o600)
    path.write_text(text)
    with pytest.raises(InvalidInputError) as caught:
        read(path)
    assert reason in str(caught.value)
    assert KEY[:8] not in str(caught.value)


def test_files_that_others_reach_are_refused(tmp_path: Path) -> None:
    """A key file that everyone can read and a parents file that everyone can write are refused."""
    keys, trusted = tmp_path / "zone-keys", tmp_path / "zone-parents"
    create(keys)
    add_parent(trusted, "root", public_text(keys))
    keys.chmod(0o604)
    trusted.chmod(0o604)
    with pytest.raises(InvalidInputError, match="chmod 600"):
        read(keys)
    assert parents(trusted).keys() == {"root"}
    trusted.chmod(0o602)
    with pytest.raises(InvalidInputError, match="add a parent"):
        parents(trusted)


def test_parents_come_and_go(tmp_path: Path) -> None:
    """A running zone follows the file of parents, and trusts no parent without a file."""
    path, clock, told = tmp_path / "zone-parents", FakeClock(), Told()
    file = ParentsFile(path, clock, told)
    assert file.trusted() == {}
    one, other = (Ed25519PrivateKey.generate().public_key() for _ in range(2))
    add_parent(path, "root", f"{key_text(one)} {key_text(other)}\n")
    add_parent(path, "east", key_text(other))
    clock.seconds += 1
    assert {name: len(keys) for name, keys in file.trusted().items()} == {"root": 2, "east": 1}
    add_parent(path, "root", key_text(other))
    assert remove_parent(path, "east")
    assert not remove_parent(path, "east")
    clock.seconds += 1
    assert {name: list(map(key_text, keys)) for name, keys in file.trusted().items()} == {
        "root": [key_text(other)]
    }
    path.write_text("root nonsense\n")
    clock.seconds += 1
    assert file.trusted().keys() == {"root"}
    assert [name for name, *_ in told.failures] == ["zone_parents_refused"]
    path.unlink()
    clock.seconds += 1
    assert file.trusted() == {}
    assert clock.seconds == NOW_S + 4


@pytest.mark.parametrize(
    ("name", "keys", "reason"),
    [
        ("Root", f"ed25519:{KEY}", "name: 'Root' must consist of 1 to 64"),
        ("root", "", "has 0 keys, but must have between 1 and 16"),
        ("root", KEY, "must be ed25519: followed by 32 bytes in base64"),
        ("root", f"ed25519:{KEY[:-4]}", "a key must be 32 bytes"),
    ],
)
def test_a_wrong_parent_is_refused(tmp_path: Path, name: str, keys: str, reason: str) -> None:
    """An invalid parent is refused, and no file is written."""
    path = tmp_path / "zone-parents"
    with pytest.raises(InvalidInputError) as caught:
        add_parent(path, name, keys)
    assert reason in str(caught.value)
    assert not path.exists()


def test_a_parent_is_named_once(tmp_path: Path) -> None:
    """A repeated parent is refused, since one line would hide the other."""
    path = tmp_path / "zone-parents"
    key = key_text(Ed25519PrivateKey.generate().public_key())
    path.touch(0o640)
    path.write_text(f"# mine\nroot {key}\nroot {key}\n")
    with pytest.raises(InvalidInputError, match="line 3: repeats root"):
        parents(path)
