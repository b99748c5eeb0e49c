"""Handlers for the operations of Berth's own API, one module per resource."""
