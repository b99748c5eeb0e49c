"""Measurements in a process of their own."""

import os

from bench.alone import alone


def test_another_process_does_it() -> None:
    """The function runs in another process."""
    assert alone(os.getpid) != os.getpid()
