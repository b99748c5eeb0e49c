"""Handlers for the operations of the Identity API."""
