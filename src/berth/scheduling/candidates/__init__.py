"""Allocation candidates: the sets of providers that could together serve a query.

`find_candidates` lists the candidates, and `explain` reports what each constraint of a query leaves
of the fleet. Both are pure functions of the provider table (docs/adr/0015-candidates.md).
"""
