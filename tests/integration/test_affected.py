"""`make check` runs the test files that a change can affect, in a checkout made for this test."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FILES = {
    "pyproject.toml": (
        "[project]\n[tool.pytest.ini_options]\n"
        'addopts = ["--import-mode=importlib"]\npythonpath = ["."]\n'
    ),
    "docs/page.md": "A page.\n",
    "src/berth/__init__.py": "",
    "src/berth/host.py": "def first():\n    return 1\n\n\ndef second():\n    return 2\n",
    "tests/conftest.py": (
        "from pathlib import Path\n\nimport pytest\n\n\n@pytest.fixture(scope='session')\n"
        "def page():\n    return Path('docs/page.md').read_text()\n"
    ),
    "tests/unit/test_first.py": (
        "from berth.host import first\n\ndef test_it():\n    assert first() == 1\n"
    ),
    "tests/unit/test_second.py": (
        "from berth import host\n\ndef test_it():\n    assert host.second() == 2\n"
        "def test_no_more():\n    pass\n"
    ),
    "tests/unit/test_page.py": "def test_it(page):\n    assert page\n",
    "tests/unit/test_words.py": "def test_it(page):\n    assert ' ' in page\n",
}
ROOT = Path(__file__).parents[2]
IDLE = "4 of 4 files unchanged since their last pass; running 0"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Write the checkout and return its path."""
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def check(root: Path, *options: str) -> tuple[str, int, int]:
    """Run the tests; return the plugin's message, the count of passed tests and the exit status."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "tests.affected.plugin"),
            *("-p", "xdist.plugin", "-p", "no:cacheprovider", "tests", *options),
        ],
        cwd=root,
        env={
            **os.environ,
            "PYTHONPATH": f"{root / 'src'}{os.pathsep}{ROOT}",
            # The other plugins take most of the time, and change nothing here.
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        check=False,
        capture_output=True,
        text=True,
    )
    said = re.search(r"^tests +(.*)$", done.stdout, re.MULTILINE)
    passed = re.search(r"(\d+) passed", done.stdout)
    assert said is not None, done.stdout + done.stderr
    return said[1], int(passed[1]) if passed else 0, done.returncode


def edit(root: Path, path: str, before: str, after: str) -> None:
    """Replace a passage of a file."""
    text = (root / path).read_text()
    assert before in text
    (root / path).write_text(text.replace(before, after))


def test_after_a_change_what_it_can_affect_runs(root: Path) -> None:
    """Only affected test files run after a change, and failed ones run until they pass."""
    assert check(root) == ("running all 4 files", 5, 0)
    assert check(root) == (IDLE, 0, 0)
    edit(root, "src/berth/host.py", "return 2", "return 30")
    some = "3 of 4 files unchanged since their last pass; running 1"
    assert check(root) == (some, 1, 1)
    assert check(root) == (some, 1, 1)
    edit(root, "src/berth/host.py", "return 30", "return 1 + 1")
    assert check(root) == (some, 2, 0)
    edit(root, "docs/page.md", "A page", "Another page")
    assert check(root)[1:] == (2, 0)
    assert check(root, "--everything") == ("running all 4 files", 5, 0)


def test_a_file_of_which_some_tests_ran_has_not_passed(root: Path) -> None:
    """A file of which only some tests ran runs again, because the others may fail."""
    assert check(root, "-k", "more") == ("running all 4 files", 1, 0)
    assert check(root) == ("running all 4 files", 5, 0)


def test_several_processes_trace_as_one(root: Path) -> None:
    """The traces of several worker processes are combined."""
    assert check(root, "-n", "2") == ("running all 4 files", 5, 0)
    assert check(root, "-n", "2") == (IDLE, 0, 0)
    edit(root, "src/berth/host.py", "return 2", "return 1 + 1")
    assert check(root, "-n", "2")[1:] == (2, 0)
