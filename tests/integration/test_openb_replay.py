"""The whole openb trace against a real service over HTTP, when the trace is beside the project."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

TRACE = Path(__file__).parents[3] / "shared" / "traces" / "openb"

pytestmark = [
    pytest.mark.openb,
    pytest.mark.skipif(not TRACE.is_dir(), reason="the openb trace is not beside the project"),
]


@pytest.mark.timeout(1800)
def test_every_request_that_fits_is_placed() -> None:
    """8,152 real requests on 1,523 real hosts: no rule is broken, every refusal is proven right."""
    done = subprocess.run(
        [sys.executable, "-m", "berth.cli.main", "demo", "--json", "--trace", str(TRACE)],
        capture_output=True,
        text=True,
        timeout=1700,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout)
    assert (report["hosts"], report["requests"]) == (1523, 8152)
    assert report["requests_placed"] + len(report["refusals"]) == 8152
    assert all(refused["proven"] for refused in report["refusals"])
    assert report["faults"] == []
    # Together the requests ask for 98 % of the GPUs; most of what is left are stubs of shared ones.
    gpus = report["utilisation"]["CUSTOM_GPU_MILLI"]
    assert gpus["used"] >= 0.95 * gpus["capacity"]
