"""Placement of requests over a tree of zones (ADR 0025)."""
