"""The choice of the test files that run, and the record of those that passed."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from tests.affected.passes import (
    Fingerprints,
    Needs,
    Passed,
    Passes,
    Traces,
    digest_environment,
    merge,
)
from tests.affected.project import Project, cache_of

_UNKNOWN_S: Final = 1.0
"""The time that a test file is assumed to take until it has passed once."""

_SHORT_S: Final = 8.0
"""Tests that take less than this finish before further processes would have started."""


@dataclass(slots=True)
class Run:
    """The tests of one run.

    Attributes:
        expected: ids of the tests that were collected, by the path of their file.
        finished: ids of the tests whose teardown passed, by the path of their file.
        failed: files that could not be imported, or in which a test failed.
        partial: files of which only some tests were selected.
    """

    expected: dict[str, set[str]] = field(default_factory=dict)
    finished: dict[str, set[str]] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    partial: set[str] = field(default_factory=set)

    @property
    def passed(self) -> frozenset[str]:
        """The files whose tests were all selected, all ran and all passed."""
        whole = {path for path, ids in self.finished.items() if ids == self.expected.get(path)}
        return frozenset(whole - self.failed - self.partial)


class Choice:
    """The test files that were requested for a run, and those of them that need not run.

    Args:
        root: folder of the checkout.
        asked: the requested test files and folders.
        everything: whether all requested files run.
    """

    def __init__(self, root: Path, asked: Sequence[Path], *, everything: bool) -> None:
        self._root = root
        self._asked = frozenset(_test_files(root, asked))
        self._everything = everything
        self._started_s = time.time()
        self._folder = cache_of(root)
        self._project = Project(root, self._folder / "sources.msgpack")
        self._passes = Passes.read(self._folder / "passes.msgpack")
        self._environment = digest_environment(root)

    @cached_property
    def unchanged(self) -> frozenset[str]:
        """The requested test files that need not run; none of them if everything runs."""
        if self._everything:
            return frozenset()
        now = self._fingerprints
        return frozenset(
            path
            for path in self._asked & self._passes.files.keys()
            if self._passes.files[path].fingerprint == now.of(path, self._passes.files[path].needs)
        )

    @property
    def is_short(self) -> bool:
        """Whether the tests take so little time that further processes would not pay."""
        known = self._passes.files
        seconds = (
            known[path].seconds if path in known else _UNKNOWN_S
            for path in self._asked - self.unchanged
        )
        return sum(seconds) < _SHORT_S

    @property
    def summary(self) -> str:
        """One line that says how many files run."""
        asked, unchanged = len(self._asked), len(self.unchanged)
        if not unchanged:
            return f"running all {asked} files"
        return (
            f"{unchanged} of {asked} files unchanged since their last pass; "
            f"running {asked - unchanged}"
        )

    def keep(self, run: Run, traces: Iterable[Traces]) -> None:
        """Record the files that passed and their needs; forget those that failed or were edited."""
        merged = merge(traces)
        run.partial.update(merged.partial)
        self._passes.add_once(merged.once, self._project)
        now = self._fingerprints
        for path in run.passed & merged.needs.keys():
            needs = merged.needs[path]
            self._passes.files[path] = Passed(now.of(path, needs), needs, merged.seconds[path])
            if self._edited(path, needs):
                del self._passes.files[path]
        for path in run.failed & self._passes.files.keys():
            del self._passes.files[path]
        self._passes.write(self._folder / "passes.msgpack")
        self._project.save()

    @property
    def _fingerprints(self) -> Fingerprints:
        return Fingerprints(self._project, self._passes.once, self._environment)

    def _edited(self, path: str, needs: Needs) -> bool:
        """Return whether something that a test file needs was edited while tests ran.

        The tests may have read either the old or the new text.
        """
        modules = self._project.closure(self._project.module_of(path))
        paths = {*(self._project.paths[module] for module in modules), *needs.read}
        return not paths.isdisjoint(self._edited_paths)

    @cached_property
    def _edited_paths(self) -> frozenset[str]:
        candidates = {*self._project.paths.values()}
        for passed in self._passes.files.values():
            candidates.update(passed.needs.read)
        return frozenset(one for one in candidates if _mtime_s(self._root / one) > self._started_s)


def _mtime_s(path: Path) -> float:
    """Return when a file was written, and 0 for a folder, which changes with each file in it."""
    return path.stat().st_mtime if path.is_file() else 0.0


def _test_files(root: Path, asked: Iterable[Path]) -> Iterable[str]:
    for path in asked:
        for file in path.rglob("test_*.py") if path.is_dir() else [path]:
            if file.is_relative_to(root):
                yield str(file.relative_to(root))
