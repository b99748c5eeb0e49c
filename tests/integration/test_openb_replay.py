"""A sample of the openb trace is replayed against a real service over HTTP, if it is installed."""

import csv
import gzip
import json
import os
import subprocess
import sys
from math import ceil
from pathlib import Path
from typing import TextIO

import pytest

from bench.packing import TRACE

pytestmark = [
    pytest.mark.openb,
    pytest.mark.skipif(
        not TRACE.is_dir(), reason="no folder with the openb trace: set BERTH_TEST_OPENB_TRACE"
    ),
]

_ONE_IN = int(os.environ.get("BERTH_OPENB_ONE_IN", "8"))
_NODES = "openb_node_list_all_node.csv"
_PODS = "openb_pod_list_default.csv.gz"
_ALL_HOSTS = 1523
_ALL_REQUESTS = 8152


def copy_sample(given: TextIO, into: TextIO) -> None:
    """Copy the header and one in `_ONE_IN` rows.

    The rows are sorted by what they have or ask for, so that the sample has the same mixture of
    sizes, and asks for the same share of its hosts, as the whole.
    """
    header, *rows = csv.reader(given)
    rows.sort(key=lambda row: row[1:])
    csv.writer(into).writerows([header, *sorted(rows[::_ONE_IN])])


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Return a folder with a sample of the trace, or with all of it if `_ONE_IN` is 1."""
    with (TRACE / _NODES).open(newline="") as given, (tmp_path / _NODES).open("w") as into:
        copy_sample(given, into)
    with gzip.open(TRACE / _PODS, "rt") as given, gzip.open(tmp_path / _PODS, "wt") as into:
        copy_sample(given, into)
    return tmp_path


@pytest.mark.timeout(1800)
def test_every_request_that_fits_is_placed(trace: Path) -> None:
    """Each request of the sample is placed or proven not to fit, without a fault.

    `make openb` replays all 8,152 requests on 1,523 hosts.
    """
    done = subprocess.run(
        [sys.executable, "-m", "berth.cli.main", "demo", "--json", "--trace", str(trace)],
        capture_output=True,
        text=True,
        timeout=1700,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout)
    requests = ceil(_ALL_REQUESTS / _ONE_IN)
    assert (report["hosts"], report["requests"]) == (ceil(_ALL_HOSTS / _ONE_IN), requests)
    assert report["requests_placed"] + len(report["refusals"]) == requests
    # Some requests do not fit, so that refusals are checked too.
    assert report["refusals"]
    assert all(refused["proven"] for refused in report["refusals"])
    assert report["faults"] == []
    # Together the requests ask for 98 % of the GPUs; most of the rest are parts of shared ones.
    gpus = report["utilisation"]["CUSTOM_GPU_MILLI"]
    assert gpus["used"] >= 0.95 * gpus["capacity"]
