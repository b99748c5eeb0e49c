"""Readers of a Nova cloud: through its API and Placement's, or from their databases."""
