"""Hosts, flavors, instances and their moves: the inputs and the results of a placement."""
