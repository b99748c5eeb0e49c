"""Filters: hard rules. Each module has one filter or a few related ones, with their `build`s."""
