"""Filters: hard rules, one a module, each a value made by its `build`."""
