"""Handlers of the Identity API's operations."""
