"""Allocation candidates: the sets of providers that could together serve a query.

The policy is a pure function of the table of providers: `find_candidates` lists the candidates, and
`explain` reports what each constraint of a query leaves of the fleet (docs/adr/0015-candidates.md).
"""
