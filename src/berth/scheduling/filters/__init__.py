"""Filters: hard rules. `build` functions make them; a module has one or a few similar ones."""
