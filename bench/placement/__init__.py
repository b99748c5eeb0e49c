"""Benchmarks of Berth's Placement API against OpenStack Placement, both on PostgreSQL."""
