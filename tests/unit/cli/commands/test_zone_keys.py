"""`berth zone keys` and `berth zone parents`: the files of keys."""

import json
from pathlib import Path

import pytest

from berth.config.zone_keys import ZoneKeys, parents, public_text, read
from tests.unit.cli.conftest import Run


@pytest.fixture(autouse=True)
def _no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the variables that the developer's shell may set."""
    for name in ("BERTH_ZONES_KEY_FILE", "BERTH_ZONES_PARENTS_FILE"):
        monkeypatch.delenv(name, raising=False)


def test_keys_are_made_for_their_owner_alone(run: Run, tmp_path: Path) -> None:
    """Only the owner can read the file, and only the public keys are printed."""
    path = tmp_path / "zone-keys"
    ended = run("zone", "keys", "create", "--file", path)
    assert ended.code == 0, ended.err
    assert path.stat().st_mode & 0o777 == 0o600
    assert ended.out.endswith(f"berth zone parents add NAME {public_text(path)}\n")
    private = {line.split()[1] for line in path.read_text().splitlines() if line[0] != "#"}
    assert not private & set(ended.out.split())


def test_keys_are_not_made_twice(run: Run, tmp_path: Path) -> None:
    """An existing key file is not overwritten, since sealed offers would be lost."""
    path = tmp_path / "zone-keys"
    run("zone", "keys", "create", "--file", path)
    before = path.read_bytes()
    assert run("zone", "keys", "create", "--file", path).code == 2
    assert path.read_bytes() == before


def test_keys_rotate(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next key signs after a pause, and old sealing keys are kept."""
    path = tmp_path / "zone-keys"
    run("zone", "keys", "create", "--file", path)
    before = read(path)
    monkeypatch.setenv("BERTH_ZONES_KEY_FILE", str(path))
    waits: list[tuple[float, ZoneKeys]] = []
    monkeypatch.setattr("time.sleep", lambda pause_s: waits.append((pause_s, read(path))))
    ended = run("zone", "keys", "rotate")
    assert ended.code == 0, ended.err
    after = read(path)
    ((pause_s, meanwhile),) = waits  # the pause lets running servers read the file again
    assert pause_s >= 2.0
    assert meanwhile.offers == after.offers
    assert after.offers[1:] == before.offers
    assert after.offers[0] != before.offers[0]
    old, new = (one.statements for one in (before, after))
    assert old[1].private_bytes_raw() == new[0].private_bytes_raw()
    assert public_text(path) in ended.out


def test_public_keys_are_one_line_that_children_take(run: Run, tmp_path: Path) -> None:
    """The line printed by `public` is accepted by `parents add`, in one or several words."""
    run("zone", "keys", "create", "--file", tmp_path / "keys")
    line = run("zone", "keys", "public", "--file", tmp_path / "keys").out
    assert line == public_text(tmp_path / "keys") + "\n"
    trusted = tmp_path / "parents"
    ended = run("zone", "parents", "add", "root", *line.split(), "--file", trusted)
    assert ended.out == f"parent root added to {trusted}, with 2 keys\n"
    ended = run("zone", "parents", "add", "root", line.strip(), "--file", trusted)
    assert ended.out == f"parent root changed in {trusted}, with 2 keys\n"
    (found,) = parents(trusted).items()
    told = [key.public_bytes_raw() for key in found[1]]
    own = read(tmp_path / "keys").statements
    assert (found[0], told) == ("root", [key.public_key().public_bytes_raw() for key in own])


def test_parents_are_listed_and_removed(run: Run, tmp_path: Path) -> None:
    """Parents are listed with their keys, and removing an unknown one ends with 4."""
    path = tmp_path / "parents"
    assert run("zone", "parents", "list", "--file", path).out == "no parents\n"
    for name in ("root", "other"):
        run("zone", "keys", "create", "--file", tmp_path / name)
        words = public_text(tmp_path / name).split()
        run("zone", "parents", "add", name, words[0], "--file", path)
    key = public_text(tmp_path / "root").split()[0]
    lines = run("zone", "parents", "list", "--file", path).out.splitlines()
    assert [line.split()[0] for line in lines[-2:]] == ["other", "root"]
    assert lines[-1].split()[1] == key
    document = json.loads(run("zone", "parents", "list", "--json", "--file", path).out)
    assert document["parents"][1] == {"name": "root", "keys": [key]}
    assert run("zone", "parents", "remove", "root", "--file", path).code == 0
    assert list(parents(path)) == ["other"]
    ended = run("zone", "parents", "remove", "root", "--file", path)
    assert ended.code == 4
    assert "no parent 'root'" in ended.err


@pytest.mark.parametrize(
    "words",
    [
        ("keys", "rotate"),
        ("keys", "public"),
        ("parents", "list"),
        ("parents", "remove", "root"),
        ("parents", "add", "root", "ed25519:" + "A" * 43 + "="),
    ],
)
def test_a_wrong_file_is_told_and_left_as_it_is(
    run: Run, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """The error has the line but not its content, and the file is unchanged."""
    path = tmp_path / "file"
    path.write_text("nonsense secret\n")
    path.chmod(0o600)
    ended = run("zone", *words, "--file", path)
    assert ended.code == 2
    assert "line 1" in ended.err
    assert "secret" not in ended.err
    assert path.read_text() == "nonsense secret\n"


@pytest.mark.parametrize("key", ["x", "ed25519:x", "ed25519:" + "A" * 40])
def test_what_is_no_key_is_not_trusted(run: Run, tmp_path: Path, key: str) -> None:
    """An invalid key ends with 2, and no file is created."""
    ended = run("zone", "parents", "add", "root", key, "--file", tmp_path / "parents")
    assert ended.code == 2
    assert list(tmp_path.iterdir()) == []
