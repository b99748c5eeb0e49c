"""The modules that a file of a checkout can reach by imports."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.affected.project import Project

FILES = {
    "pyproject.toml": '[project.entry-points."berth.filters"]\nA = "berth.filters.a:build"\n',
    "src/berth/__init__.py": "",
    "src/berth/host.py": "",
    "src/berth/plugins.py": "from importlib.metadata import entry_points",
    "src/berth/filters/__init__.py": "",
    "src/berth/filters/a.py": "from berth.host import Host",
    "src/berth/filters/b.py": "",
    "src/berth/cli.py": "COMMANDS = {'up': 'berth.server:up'}",
    "src/berth/server.py": "",
    "src/berth/ledger/__init__.py": "",
    "src/berth/ledger/migrating.py": "WHERE = 'berth.ledger:steps'",
    "src/berth/ledger/steps/__init__.py": "",
    "src/berth/ledger/steps/first.py": "",
    "tests/conftest.py": "from tests.rig import made",
    "tests/rig.py": "",
    "tests/unit/conftest.py": "",
    "tests/unit/test_host.py": "def test_it():\n    from berth.host import Host",
    "tests/unit/other/conftest.py": "",
    "tests/unit/test_plugins.py": "import berth.plugins",
    "tests/unit/test_cli.py": "from berth import cli",
    "tests/unit/test_ledger.py": "from berth.ledger.migrating import migrate",
}


def project_in(root: Path, files: Mapping[str, str] = FILES) -> Project:
    """Write the files and return the project."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return Project(root, root / ".cache" / "sources")


@pytest.mark.parametrize(
    ("test", "reached"),
    [
        ("test_host", {"berth.host"}),
        ("test_plugins", {"berth.plugins", "berth.filters", "berth.filters.a", "berth.host"}),
        ("test_cli", {"berth.cli", "berth.server"}),
        (
            "test_ledger",
            {
                "berth.ledger",
                "berth.ledger.migrating",
                "berth.ledger.steps",
                "berth.ledger.steps.first",
            },
        ),
    ],
)
def test_a_test_reaches_what_it_may_import(tmp_path: Path, test: str, reached: set[str]) -> None:
    """Lazy imports, entry points, module names in strings and scripts in a folder are followed."""
    found = project_in(tmp_path).closure(f"tests.unit.{test}")
    shared = {"berth", "tests.conftest", "tests.rig", "tests.unit.conftest", f"tests.unit.{test}"}
    assert found == reached | shared


def test_what_was_read_is_kept_until_the_content_changes(tmp_path: Path) -> None:
    """A saved source is read from the cache until the file's content changes."""
    project_in(tmp_path).source("berth.host")
    first = project_in(tmp_path)
    before = first.source("berth.host")
    first.save()
    assert project_in(tmp_path).source("berth.host") == before
    (tmp_path / "src/berth/host.py").write_text("LIMIT = 1")
    assert Project(tmp_path, tmp_path / ".cache" / "sources").source("berth.host") != before


def test_a_cache_of_another_form_is_read_anew(tmp_path: Path) -> None:
    """A damaged cache is ignored and causes no error."""
    project = project_in(tmp_path)
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "sources").write_bytes(b"\xc1")
    assert project.source("berth.host") == project_in(tmp_path).source("berth.host")
