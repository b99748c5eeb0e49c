"""The example of the docs, a filter in its own package, built, installed and used."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "berth-quiet-hosts"
POLICY = """
name = "quiet"

[[filters]]
name = "ResourcesFilter"

[[filters]]
name = "QuietHostFilter"
instances_max = {limit}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the package in a folder outside the environment, and return the folder."""
    target = tmp_path_factory.mktemp("plugins")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", "--target", str(target), str(EXAMPLE)]
    subprocess.run(command, check=True, cwd=target)
    return target


def berth(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a `berth` command that can import the package."""
    return subprocess.run(
        [str(Path(sys.executable).with_name("berth")), *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(installed)},
    )


def test_the_filter_decides_like_any_other(installed: Path, tmp_path: Path) -> None:
    """The filter is applied and counted, and a bad value of its option is reported."""
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY.format(limit=50))
    examples = ROOT / "docs" / "reference" / "examples"
    files = ["--state", str(examples / "state.json"), "--request", str(examples / "request.json")]
    done = berth(installed, "decide", *files, "--policy", str(policy), "--json")
    assert done.returncode == 0, done.stderr
    (instance, *_) = json.loads(done.stdout)["instances"]
    counted = [count["name"] for count in instance["filters"]]
    assert counted == ["ResourcesFilter", "QuietHostFilter"]
    policy.write_text(POLICY.format(limit=0))
    done = berth(installed, "policy", "check", str(policy))
    assert done.returncode != 0
    assert "instances_max: 0 must be at least 1" in done.stderr


def test_without_the_package_the_rule_is_unknown(tmp_path: Path) -> None:
    """Without the package, `berth policy check` reports that the filter does not exist."""
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY.format(limit=5))
    done = berth(tmp_path, "policy", "check", str(policy))
    assert done.returncode != 0
    assert "there is no filter 'QuietHostFilter'" in done.stderr
