"""Hosts, flavors, instances and their moves: what a placement is about, and what it decides."""
