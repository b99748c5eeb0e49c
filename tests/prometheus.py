"""The programs of Prometheus, for tests that need them."""

import shutil
from pathlib import Path

import pytest

_UNPACKED = Path(__file__).parents[1] / ".cache" / "prometheus" / "usr" / "bin"


def promtool() -> Path:
    """Return promtool, which tests rules; skip the test if it is missing."""
    return _program("promtool")


def prometheus() -> Path:
    """Return the server of Prometheus; skip the test if it is missing."""
    return _program("prometheus")


def _program(name: str) -> Path:
    unpacked = _UNPACKED / name
    if unpacked.is_file():
        return unpacked
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name}: make prometheus")
    return Path(found)
