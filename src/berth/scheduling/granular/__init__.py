"""Granular requests: the assignment of the groups of a request to providers of a host's tree.

A verdict needs no list of candidates: array operations decide most hosts, and an exact search the
rest (docs/adr/0009-trees-and-groups.md).
"""
