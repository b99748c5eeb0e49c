"""Builders, strategies and conformance suites for the tests of Berth and of its plugins."""
