"""Handlers of Berth's own API's operations, one module per resource."""
