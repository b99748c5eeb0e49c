"""A part is measured in a process of its own."""

import os

from bench.alone import alone


def test_another_process_does_it() -> None:
    """Neither its memory nor its caches are this process's."""
    assert alone(os.getpid) != os.getpid()
