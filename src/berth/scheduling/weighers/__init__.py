"""Weighers: soft rules, one a module, each a value made by its `build`."""
