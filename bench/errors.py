"""What makes a measurement worth nothing."""


class BenchError(Exception):
    """What was to be timed did not do what it should, so its time says nothing."""
