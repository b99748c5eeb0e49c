"""Runs of OpenStack's own suites, each in a virtual environment of its own."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def check_installed(name: str) -> None:
    """Skip the test if the environment `.venv-NAME` does not exist."""
    if not _python(name).exists():
        pytest.skip(f"There is no .venv-{name} with the suite; `make {name}` makes it.")


def run_suite(name: str, *arguments: str, timeout_s: float) -> str:
    """Run the module `tests.e2e.NAME.suite` in `.venv-NAME`, and return its error output.

    The test fails if the module does.

    Args:
        name: the name of the suite, which is also the target of make that creates the environment.
        arguments: the arguments of the module.
        timeout_s: seconds that the run may take.
    """
    done = subprocess.run(
        [str(_python(name)), "-W", "ignore", "-m", f"tests.e2e.{name}.suite", *arguments],
        cwd=ROOT,
        env={**os.environ, "no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stderr


def _python(name: str) -> Path:
    return ROOT / f".venv-{name}" / "bin" / "python"
