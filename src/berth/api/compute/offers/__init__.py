"""Offers over HTTP: what a parent zone selects, builds and releases here."""
