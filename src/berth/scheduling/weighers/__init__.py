"""Weighers, the soft rules. Each module has a `build` function, or a few for similar weighers."""
