"""Benchmarks that compare Berth with its peers on one machine in one run."""
