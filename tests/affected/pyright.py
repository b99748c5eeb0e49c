"""Run pyright over what a change can affect: `python -m tests.affected.pyright`.

A module whose last check found nothing is left out until its own text changes, or the interface of
a module that it imports. What reaches it through further modules is left to mypy, which runs beside
pyright and follows every type; `--everything` checks all modules.
"""

import json
import re
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

_FOUND: Final = re.compile(r"^\s*(\S+\.py):\d+:\d+ - ", re.MULTILINE)

_MOST: Final = 0.6
"""Above this share of all modules it takes no longer to check all."""


def fingerprints(project: Project, environment: str) -> Mapping[str, str]:
    """Return for each checked module a digest of what pyright sees when it checks it."""
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


def settings_for(paths: Iterable[str], root: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the project's settings for pyright, for some of its files.

    Args:
        paths: of the files, below the root.
        root: folder of the checkout.
        settings: what pyproject.toml says.
    """
    return {
        **settings,
        "include": [str(root / path) for path in paths],
        "extraPaths": [str(root / "src")],
        "venvPath": str(root / settings.get("venvPath", ".")),
    }


def faulty_paths(output: str, root: Path) -> frozenset[str]:
    """Return the files, below the root, in which pyright found something."""
    found = (Path(path) for path in _FOUND.findall(output))
    return frozenset(str(path.relative_to(root)) for path in found if path.is_relative_to(root))


def main(root: Path = ROOT) -> int:
    """Check what has to be checked, and return pyright's exit status."""
    cache = cache_of(root)
    project = Project(root, cache / "sources.msgpack")
    settings = (root / "pyproject.toml").read_text("utf-8")
    lock = digest_path(root / "requirements" / "dev.lock")
    now = fingerprints(project, digest(settings, lock))
    project.save()
    before = {} if "--everything" in sys.argv else _read(cache / "pyright.msgpack")
    changed = sorted(module for module, one in now.items() if before.get(module) != one)
    path = root / "pyproject.toml"
    if len(changed) > _MOST * len(now):
        changed = sorted(now)
    _say(len(now), len(changed))
    if not changed:
        return 0
    if len(changed) < len(now):
        path = cache / "pyright.json"
        files = [project.paths[module] for module in changed]
        some = settings_for(files, root, tomllib.loads(settings)["tool"]["pyright"])
        path.write_text(json.dumps(some), "utf-8")
    done = _run(path, root)
    faulty = faulty_paths(done.stdout, root)
    if done.returncode == 0 or faulty:
        checked = {m: now[m] for m in changed if project.paths[m] not in faulty}
        kept = {m: one for m, one in before.items() if m not in changed}
        replace_file(cache / "pyright.msgpack", msgspec.msgpack.encode({**kept, **checked}))
    return done.returncode


def _run(settings: Path, root: Path) -> "subprocess.CompletedProcess[str]":
    program = Path(sys.executable).with_name("pyright")
    done = subprocess.run(
        [str(program), "--project", str(settings)],
        cwd=root,
        check=False,
        stdout=subprocess.PIPE,
        text=True,
    )
    sys.stdout.write(done.stdout)
    return done


def _say(modules: int, checked: int) -> None:
    """Say what is left out."""
    if checked == modules:
        text = f"all {modules} modules"
    else:
        left = modules - checked
        text = f"{left} of {modules} modules unchanged since their last check; checking {checked}"
    sys.stdout.write(f"types    pyright, {text}\n")
    sys.stdout.flush()


def _read(path: Path) -> dict[str, str]:
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=dict[str, str])
    except (FileNotFoundError, msgspec.DecodeError):
        return {}


if __name__ == "__main__":
    sys.exit(main())
