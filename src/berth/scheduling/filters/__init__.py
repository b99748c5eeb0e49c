"""Filters: hard rules. `build` functions make them; a module has one filter or a few alike."""
