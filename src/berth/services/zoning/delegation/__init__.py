"""Delegation: instances that child zones build, from the order to the end."""
