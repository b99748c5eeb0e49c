"""Placement of requests: decide, claim, commit; pending requests; the counts of failed builds."""
