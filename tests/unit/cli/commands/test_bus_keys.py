"""`berth bus-keys rotate`: the file of the keys that sign messages on the broker."""

from base64 import b64encode
from pathlib import Path

from berth.config.bus_keys import read_bus_keys
from tests.unit.cli.conftest import Run


def test_the_next_key_is_put_in_use(run: Run, tmp_path: Path) -> None:
    """The former next key comes first, the file is created if needed, and no key is printed."""
    path = tmp_path / "keys"
    assert run("bus-keys", "rotate", "--file", path).code == 0
    before = read_bus_keys(path)
    ended = run("bus-keys", "rotate", "--file", path)
    assert ended.code == 0
    assert read_bus_keys(path)[0] == before[1]
    assert not any(b64encode(key).decode() in ended.out for key in read_bus_keys(path))


def test_a_wrong_file_is_told(run: Run, tmp_path: Path) -> None:
    """An invalid file is reported with its line and left unchanged."""
    path = tmp_path / "keys"
    path.write_text("nonsense")
    path.chmod(0o600)
    ended = run("bus-keys", "rotate", "--file", path)
    assert ended.code != 0
    assert "line 1" in ended.err
    assert path.read_text() == "nonsense"
