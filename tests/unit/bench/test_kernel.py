"""The kernel's part of the bench: both sides decide, and each as it says."""

import pytest

from bench import kernel as part
from bench.cases import KernelCases
from berth.config.policy_file import load_policy
from berth.scheduling.engine.kernel import kernel, using

CASES = KernelCases(hosts=50, turns=2, decisions=3)


@pytest.mark.skipif(kernel() is None, reason="no kernel is installed: make kernel")
def test_both_sides_are_measured() -> None:
    """On tables of their own; the ratio is that of neighbours."""
    times = part.measure(load_policy(None), CASES)
    assert (times.compiled.samples, times.numpy.samples) == (3, 2)
    assert times.ratio.low <= times.ratio.median <= times.ratio.high


def test_without_a_kernel_the_part_fails() -> None:
    """Two equal sides would say that it does not pay."""
    with using(None), pytest.raises(part.NoKernelError, match="make kernel"):
        part.measure_kernel("nova", CASES)
