"""Sealed texts, and the encoding that carries them in URLs."""
