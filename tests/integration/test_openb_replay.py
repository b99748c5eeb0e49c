"""The whole openb trace is replayed against a real service over HTTP, if it is installed."""

import json
import subprocess
import sys

import pytest

from bench.packing import TRACE

pytestmark = [
    pytest.mark.openb,
    pytest.mark.skipif(
        not TRACE.is_dir(), reason="no folder with the openb trace: set BERTH_TEST_OPENB_TRACE"
    ),
]


@pytest.mark.timeout(1800)
def test_every_request_that_fits_is_placed() -> None:
    """Each of 8,152 requests on 1,523 hosts is placed or proven not to fit, without a fault."""
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
    # Together the requests ask for 98 % of the GPUs; most of the rest are parts of shared ones.
    gpus = report["utilisation"]["CUSTOM_GPU_MILLI"]
    assert gpus["used"] >= 0.95 * gpus["capacity"]
