"""The base class of the benchmarks' errors."""


class BenchError(Exception):
    """A measurement failed, so its figures would be meaningless."""
