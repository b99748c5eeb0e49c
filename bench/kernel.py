"""The gain by the engine's kernel: warm decisions with and without it, in turns."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.alone import alone
from bench.cases import KernelCases
from bench.desk import Desk
from bench.errors import BenchError
from bench.fleet import snapshot
from bench.timing import Sample, Times, collect_garbage, summarise
from bench.turns import Ratio, one_processor, ratio_of, take_turns
from bench.workload import WarmDecisions
from berth.config.policy_file import load_policy
from berth.scheduling.engine.kernel import Kernel, kernel, using
from berth.scheduling.evaluation.policy import Policy


class NoKernelError(BenchError):
    """No kernel is installed, so there is nothing to compare."""


@dataclass(frozen=True, slots=True)
class KernelTimes:
    """Times of warm decisions with the kernel and with NumPy alone, and their ratio."""

    hosts: int
    compiled: Times
    numpy: Times
    ratio: Ratio


def measure_kernel(policy_name: str, cases: KernelCases) -> KernelTimes:
    """Return the times, measured in a separate process.

    Raises:
        NoKernelError: no kernel is installed.
    """
    if kernel() is None:
        raise NoKernelError("no kernel is installed: make kernel")
    return alone(_measure_named, policy_name, cases)


def _measure_named(policy_name: str, cases: KernelCases) -> KernelTimes:
    return measure(load_policy(Path(policy_name)), cases)


def measure(policy: Policy, cases: KernelCases) -> KernelTimes:
    """Return the times of both, measured with the same requests on separate tables."""
    with one_processor():
        compiled, numpy = _Side(kernel(), policy, cases), _Side(None, policy, cases)
        collect_garbage()
        blocks, calls = take_turns(compiled.block, numpy.block, cases.turns)
    return KernelTimes(cases.hosts, summarise(blocks), summarise(calls), ratio_of(blocks, calls))


class _Side:
    """Makes decisions with or without a kernel."""

    def __init__(self, one: Kernel | None, policy: Policy, cases: KernelCases) -> None:
        self._kernel = one
        with using(one):
            warm = WarmDecisions(Desk(snapshot(cases.hosts), policy))
        self._block = partial(warm.block, cases.decisions)

    def block(self) -> Sample:
        """Return the median times of a block of decisions, as one sample."""
        with using(self._kernel):
            return self._block()
