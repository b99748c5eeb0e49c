"""A small run of `make demo-zones`, from start to the last check."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_COMMAND = [sys.executable, "-m", "berth.cli.main", "demo-zones"]
_SMALL = ["--tree", "2,1", "--hosts", "3"]


def run(folder: Path, *words: str) -> dict[str, Any]:
    """Run the demo with its files below a folder, and return its report."""
    done = subprocess.run(
        [*_COMMAND, *_SMALL, "--json", *words],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def processes_of(folder: Path) -> list[str]:
    """Return the ids of the processes whose command line names a folder."""
    found: list[str] = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes()
        except OSError:
            continue  # the process has just ended
        if str(folder).encode() in words:
            found.append(file.parent.name)
    return found


@pytest.mark.timeout(120)
def test_a_small_tree_takes_all_instances_and_adds_up(tmp_path: Path) -> None:
    """Instances land on several levels, each once; a request too large is refused with a reason."""
    report = run(tmp_path, "--instances", "40")
    assert report["faults"] == []
    assert [(zone["name"], zone["level"]) for zone in report["zones"]] == [
        ("root", 0),
        ("zone-1", 1),
        ("zone-2", 1),
        ("zone-1-1", 2),
        ("zone-2-1", 2),
    ]
    assert report["instances"] == sum(report["instances_by_level"]) == 40
    assert sum(one["count"] for one in report["requests"] if one["is_placed"]) == 40
    assert sum(count > 0 for count in report["instances_by_level"]) > 1
    shown = report["explained"]["request"]
    assert len(shown["zones"]) > 1
    assert sum(part["instances"] for part in report["explained"]["parts"]) == shown["count"]
    assert len(report["listed"]["servers"]) == shown["count"]
    assert {one["zone"] for one in report["listed"]["servers"]} == shown["zones"].keys()
    assert "No valid host was found" in report["refused"]["reason"]
    assert "zone" not in report["refused"]["reason"]
    assert list(tmp_path.iterdir()) == []
    assert processes_of(tmp_path) == []


@pytest.mark.timeout(120)
def test_a_demo_that_is_ended_leaves_nothing_behind(tmp_path: Path) -> None:
    """SIGTERM during the start stops all zones, and their folder is removed."""
    with subprocess.Popen(
        [*_COMMAND, "--tree", "1", "--hosts", "3"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"},
    ) as demo:
        assert demo.stdout is not None
        lines = iter(demo.stdout.readline, b"")
        assert any(b"root at" in line for line in lines)
        zones = processes_of(tmp_path)
        demo.send_signal(signal.SIGTERM)
        rest = demo.stdout.read()
    assert len(zones) == 2
    assert demo.returncode == 130, rest
    assert processes_of(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
