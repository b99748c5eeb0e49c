"""The fixture that all tidy tests share: the checkout."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.tidy.checkout import Checkout

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def checkout() -> Checkout:
    """Return the checkout with the files that git lists; skip the test without git."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("the tidy tests ask git for the files, and this is not a git checkout")
    listed = subprocess.run(
        [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    paths = sorted({Path(name) for name in listed.split("\0") if name})
    return Checkout(ROOT, tuple(path for path in paths if (ROOT / path).is_file()))
