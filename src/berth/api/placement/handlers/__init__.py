"""Handlers for the routes of the Placement API, one module per kind of object."""
