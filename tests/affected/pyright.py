"""Run pyright on what a change can affect: `python -m tests.affected.pyright`.

A module whose last check found nothing is left out until its own text or the interface of a module
that it imports changes. Changes that reach it through further modules are left to mypy, which also
checks the project and follows every type. `--everything` checks all modules.
"""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.affected.passes import digest_path
from tests.affected.project import Project, cache_of, replace_file
from tests.affected.sources import digest

ROOT: Final = Path(__file__).parents[2]

_MOST: Final = 0.6
"""If more than this share of all modules has changed, all are checked; it takes no longer."""


class Position(msgspec.Struct):
    """A position in a file; line and character count from 0."""

    line: int
    character: int


class Range(msgspec.Struct):
    """The range of a finding, of which only the start is read."""

    start: Position


class Finding(msgspec.Struct):
    """One finding of pyright."""

    file: str
    severity: str
    message: str
    range: Range | None = None
    rule: str = ""

    def __str__(self) -> str:
        """Return the finding in the form that pyright prints."""
        at = Position(0, 0) if self.range is None else self.range.start
        rule = f" ({self.rule})" if self.rule else ""
        place = f"{self.file}:{at.line + 1}:{at.character + 1}"
        return f"{place} - {self.severity}: {self.message}{rule}"


class Summary(msgspec.Struct, rename="camel"):
    """The numbers of files that pyright checked and of errors that it found."""

    files_analyzed: int
    error_count: int


class Report(msgspec.Struct, rename="camel"):
    """The output of pyright."""

    general_diagnostics: list[Finding]
    summary: Summary


def fingerprints(project: Project, environment: str) -> Mapping[str, str]:
    """Return a digest of what pyright reads when it checks a module, by module."""
    return {
        module: digest(
            environment,
            digest_path(project.root / project.paths[module]),
            *(
                part
                for one in sorted(project.imported_by(module))
                for part in (one, project.source(one).interface)
            ),
        )
        for module in project.paths
        if project.traced(module)
    }


def settings_for(
    paths: Iterable[str], root: Path, settings: Mapping[str, Any], folder: Path
) -> dict[str, Any]:
    """Return the project's settings for pyright, restricted to some of its files.

    Args:
        paths: the files, relative to the root.
        root: folder of the checkout.
        settings: the settings in pyproject.toml.
        folder: folder of the new settings; pyright ignores paths that are not relative to it.
    """
    up = os.path.relpath(root, folder)
    return {
        **settings,
        "include": [f"{up}/{path}" for path in paths],
        "extraPaths": [f"{up}/src"],
        "venvPath": f"{up}/{settings.get('venvPath', '.')}",
    }


def clean(modules: Iterable[str], project: Project, report: Report) -> frozenset[str]:
    """Return the modules in which pyright found nothing."""
    faulty = {Path(found.file) for found in report.general_diagnostics}
    return frozenset(one for one in modules if project.root / project.paths[one] not in faulty)


def main(root: Path = ROOT) -> int:
    """Check what has changed; return 1 if pyright found errors or missed files, otherwise 0."""
    cache = cache_of(root)
    project = Project(root, cache / "sources.msgpack")
    settings = (root / "pyproject.toml").read_text("utf-8")
    lock = digest_path(root / "requirements" / "dev.lock")
    now = fingerprints(project, digest(settings, lock))
    project.save()
    before = {} if "--everything" in sys.argv else _read(cache / "pyright.msgpack")
    changed = sorted(module for module, one in now.items() if before.get(module) != one)
    if len(changed) > _MOST * len(now):
        changed = sorted(now)
    _say(f"types    pyright, {_summary(len(now), len(changed))}")
    if not changed:
        return 0
    place = cache / "pyright.json"
    files = [project.paths[module] for module in changed]
    wanted = settings_for(files, root, tomllib.loads(settings)["tool"]["pyright"], cache)
    place.write_text(json.dumps(wanted), "utf-8")
    report = _run(place, root)
    for found in report.general_diagnostics:
        _say(str(found))
    if report.summary.files_analyzed != len(changed):
        _say(f"pyright checked only {report.summary.files_analyzed} of the files")
        return 1
    checked = {module: now[module] for module in clean(changed, project, report)}
    kept = {module: one for module, one in before.items() if module not in changed}
    replace_file(cache / "pyright.msgpack", msgspec.msgpack.encode({**kept, **checked}))
    return 1 if report.summary.error_count else 0


def _run(settings: Path, root: Path) -> Report:
    program = Path(sys.executable).with_name("pyright")
    command = [str(program), "--project", str(settings), "--outputjson"]
    done = subprocess.run(command, cwd=root, check=False, stdout=subprocess.PIPE)
    return msgspec.json.decode(done.stdout, type=Report)


def _summary(modules: int, checked: int) -> str:
    """Return a text that says how many modules are checked."""
    if checked == modules:
        return f"all {modules} modules"
    left = modules - checked
    return f"{left} of {modules} modules unchanged since their last check; checking {checked}"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _read(path: Path) -> dict[str, str]:
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=dict[str, str])
    except (FileNotFoundError, msgspec.DecodeError):
        return {}


if __name__ == "__main__":
    sys.exit(main())
