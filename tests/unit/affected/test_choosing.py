"""The choice of the test files that run after a change."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.affected import choosing
from tests.affected.choosing import Choice, Run
from tests.affected.passes import Needs, Traces

FILES = {
    "pyproject.toml": "[project]\n",
    "docs/page.md": "A page.\n",
    "docs/other.md": "Another page.\n",
    "src/berth/__init__.py": "",
    "src/berth/host.py": "LIMIT = 1\ndef first(): return 1\ndef second(): return 2\n",
    "src/berth/flavor.py": "from berth.host import first\ndef size(): return first()\n",
    "src/berth/lone.py": "",
    "tests/conftest.py": "",
    "tests/rig.py": "",
    "tests/unit/test_host.py": "from berth.host import first, second\n",
    "tests/unit/test_flavor.py": "from berth.flavor import size\n",
    "tests/unit/test_page.py": "from tests import rig\n",
    "tests/unit/test_process.py": "",
}
NEEDS = {
    "tests/unit/test_host.py": Needs({"berth.host": "3"}),
    "tests/unit/test_flavor.py": Needs({"berth.flavor": "1", "berth.host": "1"}),
    "tests/unit/test_page.py": Needs({}, ["docs/page.md"]),
    "tests/unit/test_process.py": Needs({}, [], True),
}
ALL = frozenset({"host", "flavor", "page", "process"})


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a checkout and return it; the digest of the environment is fixed."""
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.setattr(choosing, "digest_environment", lambda root: "")
    return tmp_path


def choice_in(root: Path, *, everything: bool = False) -> Choice:
    """Return a choice among all test files, as another process would make it."""
    return Choice(root, [root / "tests"], everything=everything)


def run_of(ids: Mapping[str, set[str]]) -> Run:
    """Return a run in which all these tests were expected and finished."""
    return Run(expected=dict(ids), finished=dict(ids))


def let_pass(root: Path, run: Run | None = None, once: Mapping[str, str] | None = None) -> None:
    """Record a run in which all test files passed, or the given run."""
    seconds = dict.fromkeys(NEEDS, 1.0)
    traces = Traces(dict(NEEDS), seconds, dict(once or {}), [])
    choice_in(root).keep(run or run_of({path: {"test"} for path in NEEDS}), [traces])


def running(root: Path) -> set[str]:
    """Return the short names of the test files that would run."""
    unchanged = choice_in(root).unchanged
    return {Path(path).stem.removeprefix("test_") for path in NEEDS.keys() - unchanged}


def test_a_file_runs_until_it_has_passed(root: Path) -> None:
    """After a test file has passed, it does not run again in any process."""
    assert running(root) == ALL
    let_pass(root)
    assert running(root) == set()


@pytest.mark.parametrize(
    ("path", "text", "affected"),
    [
        ("src/berth/host.py", FILES["src/berth/host.py"].replace("return 2", "return 3"), {"host"}),
        (
            "src/berth/host.py",
            FILES["src/berth/host.py"].replace("return 1", "return 3"),
            {"host", "flavor"},
        ),
        (
            "src/berth/host.py",
            FILES["src/berth/host.py"].replace("LIMIT = 1", "LIMIT = 2"),
            {"host", "flavor"},
        ),
        ("src/berth/host.py", FILES["src/berth/host.py"] + "# A reason.\n", set()),
        ("src/berth/__init__.py", "LIMIT = 1", {"host", "flavor"}),
        ("src/berth/lone.py", "LIMIT = 1", set()),
        ("docs/page.md", "Another text.\n", {"page"}),
        ("docs/other.md", "Another text.\n", set()),
        ("tests/rig.py", "LIMIT = 1", {"page"}),
        ("tests/conftest.py", "LIMIT = 1", ALL),
        ("tests/unit/conftest.py", "", ALL),
        ("tests/unit/test_host.py", "", {"host"}),
    ],
)
def test_what_a_change_can_affect_runs(
    root: Path, path: str, text: str, affected: set[str]
) -> None:
    """A change runs the test files that need the changed text, and those that start processes."""
    let_pass(root)
    (root / path).write_text(text)
    assert running(root) == affected | {"process"}


def test_a_change_taken_back_affects_nothing(root: Path) -> None:
    """A file that has its former text again counts as passed."""
    let_pass(root)
    (root / "src/berth/host.py").write_text("")
    assert running(root) == {"host", "flavor", "process"}
    (root / "src/berth/host.py").write_text(FILES["src/berth/host.py"])
    assert running(root) == set()


def test_what_runs_once_counts_for_all_that_can_reach_it(root: Path) -> None:
    """A change of code that runs once per process affects every test that can reach it."""
    let_pass(root, once={"berth.host": "2"})
    changed = FILES["src/berth/host.py"].replace("return 2", "return 3")
    (root / "src/berth/host.py").write_text(changed)
    assert running(root) == {"host", "flavor", "process"}


def test_a_file_passes_only_as_a_whole(root: Path) -> None:
    """A file passes only if all its tests were selected, finished and succeeded."""
    run = run_of({path: {"one", "other"} for path in NEEDS})
    run.failed.add("tests/unit/test_host.py")
    run.partial.add("tests/unit/test_flavor.py")
    run.finished["tests/unit/test_page.py"] = {"one"}
    let_pass(root, run)
    assert running(root) == {"host", "flavor", "page"}


def test_a_failure_undoes_an_earlier_pass(root: Path) -> None:
    """A file whose test fails runs again, even without a change."""
    let_pass(root)
    run = Run(failed={"tests/unit/test_host.py"})
    choice_in(root).keep(run, [])
    assert running(root) == {"host"}


def test_an_edit_while_tests_run_leaves_their_outcome_open(root: Path) -> None:
    """A file that needs a source edited during the run does not count as passed."""
    choice = choice_in(root)
    path = root / "src" / "berth" / "flavor.py"
    path.write_text(FILES["src/berth/flavor.py"])
    later_s = path.stat().st_mtime + 10
    os.utime(path, (later_s, later_s))
    traces = Traces(dict(NEEDS), dict.fromkeys(NEEDS, 1.0), {}, [])
    choice.keep(run_of({path: {"test"} for path in NEEDS}), [traces])
    assert running(root) == {"flavor"}


def test_everything_can_be_asked_for(root: Path) -> None:
    """With `everything`, all test files run although they have passed."""
    let_pass(root)
    choice = choice_in(root, everything=True)
    assert choice.unchanged == frozenset()
    assert choice.summary == "running all 4 files"


def test_the_summary_says_what_is_left_out(root: Path) -> None:
    """The summary has the numbers of unchanged and of running files."""
    let_pass(root)
    (root / "docs/page.md").write_text("Another text.\n")
    assert choice_in(root).summary == "2 of 4 files unchanged since their last pass; running 2"


def test_few_seconds_are_spent_in_one_process(root: Path) -> None:
    """A run is short while its known durations are; a file without one counts as a second."""
    assert choice_in(root).is_short
    seconds = dict.fromkeys(NEEDS, 10.0)
    run = run_of({path: {"test"} for path in NEEDS})
    choice_in(root).keep(run, [Traces(dict(NEEDS), seconds, {}, [])])
    assert choice_in(root).is_short
    (root / "docs/page.md").write_text("Another text.\n")
    assert not choice_in(root).is_short
