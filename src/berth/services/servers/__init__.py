"""Use cases about servers: instances, their operations and moves, flavors, groups, consoles."""
