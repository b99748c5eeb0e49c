"""Handlers of the Placement API's routes, one module per kind of object."""
