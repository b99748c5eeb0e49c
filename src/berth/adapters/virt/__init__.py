"""Drivers of compute hosts."""
