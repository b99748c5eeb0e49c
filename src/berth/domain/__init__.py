"""Nouns and laws of scheduling, on the standard library alone."""
