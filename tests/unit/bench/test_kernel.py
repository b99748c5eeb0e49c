"""The kernel part of the benchmark."""

import pytest

from bench import kernel as part
from bench.cases import KernelCases
from berth.config.policy_file import load_policy
from berth.scheduling.engine.kernel import kernel, using

CASES = KernelCases(hosts=50, turns=2, decisions=3)


@pytest.mark.skipif(kernel() is None, reason="no kernel is installed: make kernel")
def test_both_sides_are_measured() -> None:
    """The compiled kernel and NumPy have times, and their ratio has quartiles."""
    times = part.measure(load_policy(None), CASES)
    assert (times.compiled.samples, times.numpy.samples) == (3, 2)
    assert times.ratio.low <= times.ratio.median <= times.ratio.high


def test_without_a_kernel_the_part_fails() -> None:
    """Without a kernel, the part raises an error instead of comparing NumPy with itself."""
    with using(None), pytest.raises(part.NoKernelError, match="make kernel"):
        part.measure_kernel("nova", CASES)
