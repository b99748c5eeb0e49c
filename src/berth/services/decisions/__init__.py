"""Decisions: plans made into records, and what the decisions of several schedulers share."""
