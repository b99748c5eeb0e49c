"""Zoning: requests that are placed over a tree of zones (ADR 0025)."""
