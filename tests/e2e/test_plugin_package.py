"""The example of the docs, rules in their own package, built, installed and used."""

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
COSTS = """
name = "users"
driver = "least_cost"

[[filters]]
name = "ResourcesFilter"

[[costs]]
name = "same_user"
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


def test_the_cost_function_prefers_hosts_without_the_user(installed: Path, tmp_path: Path) -> None:
    """The cost function sends the instance of a user to the host without one of the same user."""
    policy = tmp_path / "policy.toml"
    policy.write_text(COSTS)
    state = json.loads((ROOT / "docs/reference/examples/state.json").read_text())
    request = {"flavor": {"vcpus": 1, "memory_mb": 1}, "user_id": "u9"}
    for name, value in (("state", state), ("request", request)):
        (tmp_path / name).write_text(json.dumps(value))
    files = ["--state", str(tmp_path / "state"), "--request", str(tmp_path / "request")]
    ranked = hosts_of(berth(installed, "decide", *files, "--policy", str(policy), "--json"))
    first, *others = ranked
    assert others
    (host,) = [one for one in state["hosts"] if one["name"] == first]
    state["instances"] = [*state.get("instances", []), instance_on(host, "u9")]
    (tmp_path / "state").write_text(json.dumps(state))
    ranked = hosts_of(berth(installed, "decide", *files, "--policy", str(policy), "--json"))
    assert ranked == [*others, first]


def hosts_of(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the chosen host of a decision and the runners-up, the best first."""
    assert done.returncode == 0, done.stderr
    (placed,) = json.loads(done.stdout)["decision"]["placements"]
    return [one["host"] for one in (placed["chosen"], *placed["runners_up"])]


def instance_on(host: dict[str, str], user_id: str) -> dict[str, object]:
    """Return an instance of a user on a host, as a state file has it."""
    return {
        "uuid": "0b1c2d3e-0000-4000-8000-000000000001",
        "name": "web",
        "project_id": "p1",
        "user_id": user_id,
        "request_id": "req-web",
        "reservation_id": "r-web",
        "flavor": {"flavor_id": "1", "name": "tiny", "vcpus": 1, "memory_mb": 1},
        "status": "ACTIVE",
        "task": None,
        "host": host["name"],
        "node": host["node"],
    }


def test_without_the_package_the_rule_is_unknown(tmp_path: Path) -> None:
    """Without the package, `berth policy check` reports that the filter does not exist."""
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY.format(limit=5))
    done = berth(tmp_path, "policy", "check", str(policy))
    assert done.returncode != 0
    assert "there is no filter 'QuietHostFilter'" in done.stderr
