"""The examples of the README work as they are printed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from berth.cli.main import main

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


def test_the_library_example_runs() -> None:
    """The block without a service is run from the root of the checkout, and names a host."""
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    # tests/unit/client runs those with a service.
    (block,) = [one for one in blocks if "berth.client" not in one]
    done = subprocess.run(
        [sys.executable, "-c", block], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in (ROOT / "docs/reference/examples/state.json").read_text("utf-8")


def test_every_command_is_one_that_berth_has(capsys: pytest.CaptureFixture[str]) -> None:
    """Each `berth WORD WORD` of the README is a command, and takes the options shown."""
    lines = re.findall(r"^\.venv/bin/berth (.*?)(?: &)?$", README, re.MULTILINE)
    assert lines
    for line in lines:
        words = [word for word in line.split() if not word.startswith("-")]
        options = {word for word in line.split() if word.startswith("--")}
        command = words[: 1 if words[0] in {"up", "explain", "capacity"} else 2]
        assert main([*command, "--help"]) == 0
        said = capsys.readouterr().out
        assert all(option in said for option in options), (line, said)
