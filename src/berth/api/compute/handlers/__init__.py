"""Handlers of the compute API's operations, one module per resource."""
