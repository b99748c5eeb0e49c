"""Sealed texts, and their encoding for URLs."""
