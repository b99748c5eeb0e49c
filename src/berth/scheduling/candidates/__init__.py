"""Allocation candidates: which providers together could give what a query asks for.

Pure policy on the table of providers: `find` lists them, `explain` tells what each constraint
left of the fleet.
"""
