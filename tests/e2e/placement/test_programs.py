"""Programs that were written for Placement: openstacksdk, and Nova's own report client."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.conformance.placement.servers import PYTHON, ROOT
from tests.differential import nova

_ENVIRONMENT = {
    "NO_PROXY": "127.0.0.1",
    "no_proxy": "127.0.0.1",
    "OS_NOVA_DISABLE_EVENTLET_PATCHING": "1",
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def tell(python: Path, story: str, url: str) -> None:
    """Run a scenario with the interpreter that has its client.

    Raises:
        AssertionError: it failed; the message contains the end of its errors.
    """
    done = subprocess.run(
        [str(python), "-m", f"tests.e2e.placement.{story}", url],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, **_ENVIRONMENT},
    )
    assert done.returncode == 0, done.stderr[-4000:]


def test_openstacksdk_works(placement: str) -> None:
    """The SDK creates and finds all objects, and invalid requests are refused."""
    tell(PYTHON, "sdk_story", placement)


def test_nova_works(placement: str) -> None:
    """Nova's report client reports trees, claims, moves, reshapes and deletes."""
    if not nova.PYTHON.exists():
        pytest.skip(nova.MISSING)
    tell(nova.PYTHON, "nova_story", placement)
