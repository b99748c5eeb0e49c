"""Manages servers: instances, their operations and moves, flavors, groups and consoles."""
