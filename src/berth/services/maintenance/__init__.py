"""Maintenance of hosts: drains, and hosts that stay disabled until a time."""
