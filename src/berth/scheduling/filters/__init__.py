"""Filters, the hard rules. Each module has a `build` function, or a few for similar filters."""
