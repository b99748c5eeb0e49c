"""What pyright checks after a change."""

from pathlib import Path

import pytest

from tests.affected.project import Project
from tests.affected.pyright import faulty_paths, fingerprints, settings_for

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
    """Write a checkout."""
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
    """And the module itself whatever changes, be it a comment."""
    old = fingerprints(Project(root), "")
    path = root / "src/berth/host.py"
    path.write_text(path.read_text().replace(before, after))
    new = fingerprints(Project(root), "")
    assert old.keys() == {"berth", "berth.host", "berth.flavor", "berth.far"}
    assert {module for module in old if old[module] != new[module]} == checked


def test_settings_are_those_of_the_project_for_some_files(tmp_path: Path) -> None:
    """Their paths are absolute, because the file of the settings is elsewhere."""
    settings = {"include": ["src"], "venvPath": ".", "typeCheckingMode": "strict"}
    assert settings_for(["src/berth/host.py"], tmp_path, settings) == {
        "include": [f"{tmp_path}/src/berth/host.py"],
        "extraPaths": [f"{tmp_path}/src"],
        "venvPath": str(tmp_path),
        "typeCheckingMode": "strict",
    }


def test_files_in_which_something_was_found_are_named(tmp_path: Path) -> None:
    """They are checked again next time, the others are not."""
    found = f"{tmp_path}/src/berth/host.py"
    output = (
        f"{found}\n"
        f'  {found}:59:21 - error: Argument of type "int"\n    more of it\n'
        "1 error, 0 warnings, 0 informations\n"
    )
    assert faulty_paths(output, tmp_path) == {"src/berth/host.py"}
    assert faulty_paths("0 errors, 0 warnings, 0 informations\n", tmp_path) == frozenset()
