"""The modules that pyright checks after a change."""

from pathlib import Path

import msgspec
import pytest

from tests.affected.project import Project
from tests.affected.pyright import Report, clean, fingerprints, settings_for

FILES = {
    "pyproject.toml": "[project]\n",
    "src/berth/__init__.py": "",
    "src/berth/host.py": "def first() -> int:\n    return 1\n",
    "src/berth/flavor.py": "from berth.host import first\n",
    "src/berth/far.py": "import berth.flavor\n",
    "tests/test_host.py": "from berth.host import first\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Write a checkout and return it."""
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("before", "after", "checked"),
    [
        ("return 1", "return 2", {"berth.host"}),
        ("-> int", "-> object", {"berth.host", "berth.flavor"}),
        ("return 1", "return 1  # type: ignore", {"berth.host"}),
    ],
)
def test_importers_are_checked_when_the_interface_changes(
    root: Path, before: str, after: str, checked: set[str]
) -> None:
    """Any change checks the module itself; a change of its interface also checks its importers."""
    old = fingerprints(Project(root), "")
    path = root / "src/berth/host.py"
    path.write_text(path.read_text().replace(before, after))
    new = fingerprints(Project(root), "")
    assert old.keys() == {"berth", "berth.host", "berth.flavor", "berth.far"}
    assert {module for module in old if old[module] != new[module]} == checked


def test_settings_are_those_of_the_project_for_some_files(tmp_path: Path) -> None:
    """The settings include only the given files, with paths relative to the settings' folder."""
    settings = {"include": ["src"], "venvPath": ".", "typeCheckingMode": "strict"}
    made = settings_for(["src/berth/host.py"], tmp_path, settings, tmp_path / ".cache" / "affected")
    assert made == {
        "include": ["../../src/berth/host.py"],
        "extraPaths": ["../../src"],
        "venvPath": "../../.",
        "typeCheckingMode": "strict",
    }


def test_a_module_in_which_something_was_found_is_not_clean(root: Path) -> None:
    """Only modules without diagnostics are clean, so the others are checked again."""
    path = root / "src" / "berth" / "host.py"
    output = {
        "generalDiagnostics": [
            {
                "file": str(path),
                "severity": "error",
                "message": "Wrong",
                "range": {"start": {"line": 58, "character": 20}},
                "rule": "reportArgumentType",
            }
        ],
        "summary": {"filesAnalyzed": 2, "errorCount": 1},
    }
    report = msgspec.convert(output, Report)
    assert clean(["berth", "berth.host"], Project(root), report) == {"berth"}
    (found,) = report.general_diagnostics
    assert str(found) == f"{path}:59:21 - error: Wrong (reportArgumentType)"
