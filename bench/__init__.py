"""Benchmarks: how long Berth takes beside its peer, on one machine in one run."""
