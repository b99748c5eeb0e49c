"""Handlers for the compute API's operations, in one module per kind of resource."""
