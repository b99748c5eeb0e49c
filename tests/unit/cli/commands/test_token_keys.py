"""`berth token-keys rotate`: the file of token keys."""

from pathlib import Path

from berth.config.key_file import read_keys
from tests.unit.cli.conftest import Run


def test_a_key_is_put_first(run: Run, tmp_path: Path) -> None:
    """A new key is put first, the file is created if needed, and no key is printed."""
    path = tmp_path / "keys"
    assert run("token-keys", "rotate", "--file", path).code == 0
    (first,) = read_keys(path)
    ended = run("token-keys", "rotate", "--file", path, "--keep", "2")
    assert ended.out.endswith("has 2 keys; the first one seals new tokens\n")
    assert read_keys(path)[1] == first
    assert not set(path.read_text().split()[-2:]) & set(ended.out.split())


def test_a_wrong_file_is_told(run: Run, tmp_path: Path) -> None:
    """An invalid file is reported with its line and left unchanged."""
    path = tmp_path / "keys"
    path.write_text("nonsense")
    path.chmod(0o600)
    ended = run("token-keys", "rotate", "--file", path)
    assert ended.code != 0
    assert "line 1" in ended.err
    assert path.read_text() == "nonsense"
