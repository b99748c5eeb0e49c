"""A small run of `make demo`, from start to summary."""

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def _demo(*words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "berth.cli.main", "demo", "--json", *words],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_the_generated_demo_keeps_every_rule() -> None:
    """A replay on a generated fleet breaks no rule, and every refusal is proven right."""
    report = _demo("--hosts", "20", "--requests", "120", "--seed", "3")
    assert report["requests"] == 120
    assert report["requests_placed"] + len(report["refusals"]) == 120
    assert report["faults"] == []
    assert all(refused["proven"] for refused in report["refusals"])
    assert report["utilisation"]["VCPU"]["used"] > 0


def test_a_small_trace_in_the_openb_format(tmp_path: Path) -> None:
    """A trace folder is read, its fleet is registered and its requests placed or refused."""
    with (tmp_path / "openb_node_list_all_node.csv").open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["sn", "cpu_milli", "memory_mib", "gpu", "model"])
        rows.writerow(["node-0", 8000, 16384, 2, "T4"])
        rows.writerow(["node-1", 16000, 32768, 0, ""])
    with (tmp_path / "openb_pod_list_default.csv").open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(
            [
                "name",
                "cpu_milli",
                "memory_mib",
                "num_gpu",
                "gpu_milli",
                "gpu_spec",
                "qos",
                "pod_phase",
                "creation_time",
                "deletion_time",
                "scheduled_time",
            ]
        )
        for index, (cpu, gpus) in enumerate([(3500, 1), (3500, 0), (3500, 1), (500, 1)]):
            milli = 1000 if gpus else 0
            rows.writerow([f"pod-{index}", cpu, 1024, gpus, milli, "", "LS", "R", index, 99, index])
    report = _demo("--trace", str(tmp_path))
    assert report["requests_placed"] == 3
    assert report["utilisation"]["CUSTOM_GPU_MILLI"] == {"used": 2000, "capacity": 2000}
    (refused,) = report["refusals"]
    assert refused["arrival"] == "pod-3"
    assert refused["proven"]
