"""The stored results of test files."""

from pathlib import Path

import pytest

from tests.affected import passes
from tests.affected.passes import (
    Needs,
    Passed,
    Passes,
    Traces,
    digest_environment,
    join_bits,
    merge,
    needs_of,
)
from tests.affected.tracing import ALL, Trace


def test_what_was_kept_is_read_again(tmp_path: Path) -> None:
    """Written passes are read back unchanged."""
    kept = Passes({"tests/test_a.py": Passed("abc", Needs({"berth": "f"}, ["docs"]), 1.5)})
    kept.write(tmp_path / "cache" / "passes")
    assert Passes.read(tmp_path / "cache" / "passes") == kept


@pytest.mark.parametrize("content", [None, b"\xc1", b"\x01"])
def test_what_cannot_be_read_is_nothing(tmp_path: Path, content: bytes | None) -> None:
    """A missing or damaged file is read as no passes, so all test files run."""
    if content is not None:
        (tmp_path / "passes").write_bytes(content)
    assert Passes.read(tmp_path / "passes") == Passes()


def test_processes_are_taken_together() -> None:
    """Traces of several processes are merged, since each may have run tests of one file."""
    one = Traces({"a": Needs({"m": "1"}, ["x"])}, {"a": 1.0}, {"m": "8"}, ["b"])
    other = Traces({"a": Needs({"m": "4", "n": "1"}, [], True)}, {"a": 2.0}, {"m": "1"}, [])
    assert merge([one, other]) == Traces(
        {"a": Needs({"m": "5", "n": "1"}, ["x"], True)}, {"a": 3.0}, {"m": "9"}, ["b"]
    )


def test_a_module_that_is_not_traced_has_all_bits() -> None:
    """Joining the bits of an untraced module with others keeps all of them set."""
    (bits,) = join_bits({"m": f"{ALL:x}"}, {"m": "5"}).values()
    assert all(int(bits, 16) >> number & 1 for number in (0, 1, 1_000))


def test_only_files_of_the_checkout_are_needed() -> None:
    """Caches and hidden files are left out, and a compiled file is replaced by its source."""
    read = {
        ".cache/file",
        "tests/.hidden",
        "docs/page.md",
        "src/berth/steps/__pycache__/first.cpython-311.pyc",
    }
    assert needs_of(Trace(read=read)).read == ["docs/page.md", "src/berth/steps/first.py"]


def test_the_environment_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The digest depends on the project settings, the test settings and the installed packages."""
    (tmp_path / "pyproject.toml").write_text("")
    found = [digest_environment(tmp_path)]
    (tmp_path / "pyproject.toml").write_text("[project]")
    found.append(digest_environment(tmp_path))
    monkeypatch.setenv("BERTH_FUZZ_EXAMPLES", "7")
    found.append(digest_environment(tmp_path))
    monkeypatch.setattr(passes, "distributions", list)
    found.append(digest_environment(tmp_path))
    assert len(set(found)) == len(found)
    assert digest_environment(tmp_path) == found[-1]
