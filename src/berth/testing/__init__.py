"""For tests, Berth's own and those of plugins: builders, strategies, conformance suites."""
