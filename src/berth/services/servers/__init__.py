"""Servers: instances and the actions on them, flavors and server groups."""
