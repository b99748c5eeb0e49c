"""Converts domain objects to response bodies of the compute API."""
